"""`Client`: a typed Python client of the service."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import quote

try:
    import httpx
    import pydantic
except ImportError as error:
    raise ImportError(f"The client needs {error.name}: pip install 'sihash[service]'.") from None

from sihash.database.answers import (
    AddReport,
    Answer,
    Bits,
    Classification,
    Id,
    Item,
    Label,
    Rank,
    RelabelReport,
    RemoveReport,
    UndoReport,
    Value,
)
from sihash.database.inspection.findings import Diagnosis
from sihash.labels import several
from sihash.server.models import (
    UPDATE_STATE,
    ComparisonAnswer,
    IdsAnswer,
    InfoAnswer,
    ItemsPage,
    MapAnswer,
    Strategy,
    UpdateState,
    VersionsAnswer,
)

Labels = Label | Iterable[str | int]  # one label, None, or several
Image = bytes | str | os.PathLike[str]  # the contents of an image file, or its path
Result = TypeVar("Result")


NO_ANSWER = 0  # instead of a status


class ServiceError(Exception):
    """The service refused, failed or did not answer; the message is one sentence.

    ``status`` is the HTTP status, or 0 if there was no valid answer.
    """

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Client:
    """A client of `sihash serve`.

    Parameters
    ----------
    address : str
        For example ``http://127.0.0.1:8080``.
    token : str, optional
        Needed to change anything. Also to read, if the service listens elsewhere than on the loopback or is
        behind a proxy.
    timeout : float
        Seconds to wait for an answer.

    Examples
    --------
    >>> with Client("http://127.0.0.1:8080", token="…") as client:  # doctest: +SKIP
    ...     client.add("cat.jpg", label="cat")
    ...     client.search("query.jpg", k=5).hits[0].label
    """

    def __init__(self, address: str, token: str | None = None, timeout: float = 60.0) -> None:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        # trust_env: a proxy from the environment has no business between a program and a local service.
        with _errors_as_sentences(address):
            self._http = httpx.Client(base_url=address, headers=headers, timeout=timeout, trust_env=False)
        self._address = address

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Searching.

    def search(
        self,
        image: Image,
        *,
        k: int = 10,
        radius: int | None = None,
        rank: Rank | None = None,
        classes: Iterable[Label] | Label = (),
        where: str | None = None,
    ) -> Answer:
        """Find items like an image."""
        params = _params(k, radius, rank, classes, where)
        return self._post(Answer, "/v1/search/image", params=params, **_image_body(image))

    def search_vector(
        self,
        vector: Iterable[float],
        *,
        k: int = 10,
        radius: int | None = None,
        rank: Rank | None = None,
        classes: Iterable[Label] | Label = (),
        where: str | None = None,
    ) -> Answer:
        """Find items like a vector, in a database of vectors."""
        body = {"vector": list(map(float, vector)), "k": k, "radius": radius, "rank": rank, "where": where}
        return self._post(Answer, "/v1/search/vector", json={**body, "classes": _texts(classes)})

    def search_item(
        self,
        id: Id,
        *,
        k: int = 10,
        radius: int | None = None,
        rank: Rank | None = None,
        classes: Iterable[Label] | Label = (),
        where: str | None = None,
    ) -> Answer:
        """Find items like an item of the collection; the item itself is left out."""
        return self._get(Answer, f"{_item(id)}/search", _params(k, radius, rank, classes, where))

    def classify(self, image: Image) -> Classification:
        """Predict the class of an image."""
        return self._post(Classification, "/v1/classify/image", **_image_body(image))

    def classify_vector(self, vector: Iterable[float]) -> Classification:
        """Predict the class of a vector."""
        return self._post(Classification, "/v1/classify/vector", json={"vector": list(map(float, vector))})

    # Looking.

    def info(self) -> InfoAnswer:
        """What the database holds."""
        return self._get(InfoAnswer, "/v1/info")

    def bits(self) -> Bits:
        """How the bits are used, and which classes each separates."""
        return self._get(Bits, "/v1/bits")

    def evaluation(self) -> ComparisonAnswer:
        """Compare the searches with other methods.

        The first call after a change may take a minute: choose a long enough ``timeout``.
        """
        return self._get(ComparisonAnswer, "/v1/evaluation")

    def doctor(self) -> Diagnosis:
        """List labels that look wrong or conflict, and how to fix each.

        The first call after a change may take minutes: choose a long enough ``timeout``.
        """
        return self._get(Diagnosis, "/v1/doctor")

    def items(
        self,
        offset: int = 0,
        limit: int = 100,
        classes: Iterable[Label] | Label = (),
        where: str | None = None,
        text: str | None = None,
    ) -> ItemsPage:
        """List items in order of arrival; with ``text`` those that hold it in their id, name or columns."""
        params = {"offset": offset, "limit": limit, "class": _texts(classes), "where": where, "text": text}
        return self._get(ItemsPage, "/v1/items", _given(params))

    def items_of(self, ids: Iterable[Id] | Id) -> ItemsPage:
        """Items by their ids; those that do not exist are left out."""
        return self._post(ItemsPage, "/v1/items/by-id", json={"ids": several(ids)})

    def ids(
        self, classes: Iterable[Label] | Label = (), where: str | None = None, text: str | None = None
    ) -> list[Id]:
        """Ids of all items, or of those that match."""
        params = {"class": _texts(classes), "where": where, "text": text}
        return self._get(IdsAnswer, "/v1/ids", _given(params)).ids

    def map(self) -> MapAnswer:
        """Where items lie on the map. The first call after an update takes seconds."""
        return self._get(MapAnswer, "/v1/map")

    def sample(
        self,
        limit: int = 100,
        classes: Iterable[Label] | Label = (),
        seed: int = 0,
        where: str | None = None,
    ) -> ItemsPage:
        """Draw items from as many classes as possible."""
        params: dict[str, Any] = {"limit": limit, "seed": seed, "class": _texts(classes)}
        return self._get(ItemsPage, "/v1/sample", params | ({} if where is None else {"where": where}))

    def item(self, id: Id) -> Item:
        """One item."""
        return self._get(Item, _item(id))

    def thumbnail(self, id: Id) -> bytes | None:
        """A small JPEG, or None if none is stored."""
        try:
            return self._ask("GET", f"{_item(id)}/thumbnail").content or None
        except ServiceError as error:
            if error.status == 404:
                return None
            raise

    def original(self, id: Id) -> bytes | None:
        """The original image file of an item, or None if it is missing or has changed."""
        return self._ask("GET", f"{_item(id)}/image").content or None

    # Changing.

    def add(
        self,
        image: Image,
        label: Labels = None,
        name: str | None = None,
        *,
        id: str | None = None,
        replace: bool = False,
    ) -> AddReport:
        """Add an image with one label, several or none. It can be found as soon as this returns.

        ``replace`` allows it to replace an item with the same id.
        """
        if name is None:
            name = id or ("upload" if isinstance(image, bytes) else Path(image).name)
        params: dict[str, Any] = {"name": name, "replace": replace}
        params["label"] = _label_list(label)
        params |= {} if id is None else {"id": id}
        return self._post(AddReport, "/v1/items", params=params, **_image_body(image))

    def add_batch(self, images: Mapping[str, Image], label: Labels = None) -> AddReport:
        """Add several images with the same label or labels, given by name."""
        items = [
            {"name": name, "label": _label_list(label), "image": base64.b64encode(_bytes_of(image)).decode()}
            for name, image in images.items()
        ]
        return self._post(AddReport, "/v1/items/batch", json={"items": items})

    def add_vectors(
        self,
        vectors: Iterable[Iterable[float]],
        labels: Iterable[Labels],
        *,
        ids: Iterable[Id] | None = None,
        columns: Mapping[str, Sequence[Value | None]] | None = None,
        replace: bool = False,
    ) -> AddReport:
        """Add vectors with a label or a list of labels each, and optionally ids and columns."""
        items: list[dict[str, Any]] = [
            {"vector": list(map(float, vector)), "label": _label_json(label)}
            for vector, label in zip(vectors, labels, strict=True)
        ]
        for item, key in zip(items, [] if ids is None else ids, strict=ids is not None):
            item["id"] = key
        for name, values in (columns or {}).items():
            for item, value in zip(items, values, strict=True):
                item.setdefault("columns", {})[name] = value
        return self._post(AddReport, "/v1/items/batch", json={"items": items, "replace": replace})

    def remove(self, ids: Iterable[Id] | Id) -> RemoveReport:
        """Remove items."""
        return self._post(RemoveReport, "/v1/items/remove", json={"ids": several(ids)})

    def remove_class(self, label: Label) -> RemoveReport:
        """Remove a class: its items lose this label, and those with no other label are removed."""
        return self._read(RemoveReport, "DELETE", "/v1/classes", params={"label": str(label)})

    def relabel(self, ids: Iterable[Id] | Id, label: Labels) -> RelabelReport:
        """Replace all labels of items by one label or several; None removes them."""
        body = {"ids": several(ids), "label": _label_json(label)}
        return self._post(RelabelReport, "/v1/items/relabel", json=body)

    def relabel_each(self, labels: Mapping[Id, Labels]) -> RelabelReport:
        """Give each item labels of its own, as one change."""
        changes = [{"ids": [id], "label": _label_json(label)} for id, label in labels.items()]
        return self._post(RelabelReport, "/v1/items/relabel/each", json={"changes": changes})

    def relabel_classes(self, classes: Iterable[Label] | Label, label: Labels) -> RelabelReport:
        """Change the label of all items of some classes, to merge or rename them.

        Other labels of these items stay.
        """
        body = {"classes": _texts(classes), "label": _label_json(label)}
        return self._post(RelabelReport, "/v1/classes/relabel", json=body)

    def versions(self) -> VersionsAnswer:
        """The model versions, oldest first."""
        return self._get(VersionsAnswer, "/v1/versions")

    def undo(self) -> UndoReport:
        """Undo the last addition, removal, relabelling or update."""
        return self._post(UndoReport, "/v1/undo")

    def start_update(
        self, strategy: Strategy = "incremental", reencode: bool = False, compare: bool = False
    ) -> UpdateState:
        """Start an update without waiting for it; see `follow_update`."""
        order = {"strategy": strategy, "reencode": reencode, "compare": compare}
        return self._post(UpdateState, "/v1/updates", json=order)

    def follow_update(self) -> Iterator[UpdateState]:
        """Yield the states of the update until it ends."""
        with _errors_as_sentences(self._address), self._http.stream("GET", "/v1/updates/events") as answer:
            if answer.is_error:
                answer.read()
                raise _error_of(answer)
            for line in answer.iter_lines():
                if line.startswith("data: "):
                    state = UPDATE_STATE.validate_json(line.removeprefix("data: "))
                    yield state
                    if state.state != "running":
                        return

    def update(
        self, strategy: Strategy = "incremental", reencode: bool = False, compare: bool = False
    ) -> UpdateState:
        """Update, and wait until it is done."""
        self.start_update(strategy, reencode, compare)
        *_, last = self.follow_update()
        if last.state == "failed":
            raise ServiceError(500, last.error or "The update failed.")
        return last

    # Asking.

    def _get(self, kind: type[Result], path: str, params: dict[str, Any] | None = None) -> Result:
        return self._read(kind, "GET", path, params=params)

    def _post(self, kind: type[Result], path: str, **options: Any) -> Result:
        return self._read(kind, "POST", path, **options)

    def _read(self, kind: type[Result], method: str, path: str, **options: Any) -> Result:
        with _errors_as_sentences(self._address):
            reader: pydantic.TypeAdapter[Result] = _reader(kind)  # type: ignore[arg-type]  # types can be hashed
            return reader.validate_json(self._ask(method, path, **options).content)

    def _ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        with _errors_as_sentences(self._address):
            answer = self._http.request(method, path, **options)
        if answer.is_error:
            raise _error_of(answer)
        return answer


@cache
def _reader(kind: Any) -> pydantic.TypeAdapter[Any]:
    """What makes answers of one kind from JSON."""
    return pydantic.TypeAdapter(kind)


@contextmanager
def _errors_as_sentences(address: str) -> Iterator[None]:
    """Turn every problem with the connection into a `ServiceError`."""
    try:
        yield
    except (httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
        raise ServiceError(
            NO_ANSWER, f"Expected an address like http://127.0.0.1:8080, got {address!r}."
        ) from error
    except httpx.HTTPError as error:
        raise ServiceError(
            NO_ANSWER, f"No answer from {address}: {error}; is `sihash serve` running there?"
        ) from error
    except pydantic.ValidationError as error:
        raise ServiceError(
            NO_ANSWER, f"The answer from {address} does not come from this version of `sihash serve`."
        ) from error


def _error_of(answer: httpx.Response) -> ServiceError:
    try:
        return ServiceError(answer.status_code, answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return ServiceError(answer.status_code, f"The service answered with status {answer.status_code}.")


def _item(id: Id) -> str:
    """The URL of an item; an id may contain any character."""
    return f"/v1/items/{quote(str(id), safe='')}"


def _params(
    k: int, radius: int | None, rank: str | None, classes: Iterable[Label] | Label, where: str | None
) -> dict[str, Any]:
    params = {"k": k, "radius": radius, "rank": rank, "class": _texts(classes), "where": where}
    return _given(params)


def _given(params: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if value is not None}


def _texts(classes: Iterable[Label] | Label) -> list[str]:
    return [] if classes is None else [str(label) for label in several(classes)]


def _label_json(label: Labels) -> str | list[str] | None:
    """One label as text, several as a list."""
    if isinstance(label, Iterable) and not isinstance(label, str):
        return [str(one) for one in label]
    return None if label is None else str(label)


def _label_list(label: Labels) -> list[str]:
    labels = _label_json(label)
    return labels if isinstance(labels, list) else [] if labels is None else [labels]


def _bytes_of(image: Image) -> bytes:
    return image if isinstance(image, bytes) else Path(image).read_bytes()


def _image_body(image: Image) -> dict[str, Any]:
    return {"content": _bytes_of(image), "headers": {"content-type": "application/octet-stream"}}
