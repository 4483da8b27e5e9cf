"""``python -m sihash`` is the ``sihash`` command."""

from sihash.cli import main

if __name__ == "__main__":
    main()
