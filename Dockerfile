# syntax=docker/dockerfile:1
# The service with a database mounted at /data. Runs as nobody in particular, on a read-only root file system:
#
#   docker build -t sihash .
#   docker run --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges \
#     -v ./data:/data -p 127.0.0.1:8080:8080 -e SIHASH_TOKEN=… sihash serve /data/database --host 0.0.0.0

FROM python:3.11-slim AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src ./src
RUN python -m venv /opt/sihash \
 && /opt/sihash/bin/pip install --no-cache-dir --disable-pip-version-check -c constraints.txt ".[service,onnx,parquet]"

FROM python:3.11-slim
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin sihash \
 && install -d -o sihash -g sihash /data
COPY --from=build /opt/sihash /opt/sihash
# Compiled loops are kept where something may be written: the root file system need not be.
ENV PATH=/opt/sihash/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    NUMBA_CACHE_DIR=/tmp/numba \
    HOME=/tmp \
    SIHASH_PORT=8080
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8080
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 \
  CMD ["python", "-c", "import os, urllib.request as u; u.urlopen(f\"http://127.0.0.1:{os.environ['SIHASH_PORT']}/v1/ready\", timeout=4)"]
ENTRYPOINT ["sihash"]
# Away from the loopback reading needs the token too.
CMD ["serve", "/data/database", "--host", "0.0.0.0"]
