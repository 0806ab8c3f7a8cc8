"""`python -m tessera.cli` is `tessera`."""

from tessera.cli import main

main()
