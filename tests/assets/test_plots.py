"""A plot is a small PNG whose pixels are those that were drawn."""

import struct
import zlib
from collections.abc import Iterator
from typing import Any

import pytest

from assets import plots


def chunks(picture: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Kind and content of each chunk; what is read must be there and its check sum right."""
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    place = 8
    while place < len(picture):
        size, kind = struct.unpack_from(">I4s", picture, place)
        content, end = picture[place + 8 : place + 8 + size], place + 12 + size
        assert struct.unpack(">I", picture[end - 4 : end]) == (zlib.crc32(kind + content),)
        yield kind, content
        place = end
    assert place == len(picture)


def pixels(picture: bytes) -> bytes:
    return zlib.decompress(b"".join(content for kind, content in chunks(picture) if kind == b"IDAT"))


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """A plot as the drawing library made it, and as it is kept."""
    seen: dict[str, bytes] = {}
    packed = plots.packed

    def watched(picture: bytes) -> bytes:
        seen["made"], seen["kept"] = picture, packed(picture)
        return seen["kept"]

    monkeypatch.setattr(plots, "packed", watched)
    groups: list[dict[str, Any]] = [
        {"dimensions": {"category": f"verb.{number}", "method": "zlib"}, "attempts": 40, "small": False}
        | {"acceptance_rate": 0.5, "wilson_low": 0.35, "wilson_high": 0.65}
        for number in range(20)
    ]
    assert plots.intervals(groups, "rates") == seen["kept"]
    return seen


def test_a_plot_keeps_its_pixels_and_takes_a_third_of_the_room(drawn: dict[str, bytes]) -> None:
    made, kept = drawn["made"], drawn["kept"]

    assert len(kept) < len(made) / 3
    assert pixels(kept) == pixels(made)
    others = [chunk for chunk in chunks(made) if chunk[0] != b"IDAT"]
    assert [chunk for chunk in chunks(kept) if chunk[0] != b"IDAT"] == others
    assert [kind for kind, _ in chunks(kept)].count(b"IDAT") == 1


def test_what_is_packed_stays_as_it_is(drawn: dict[str, bytes]) -> None:
    assert plots.packed(drawn["kept"]) == drawn["kept"]


@pytest.mark.parametrize(
    "number",
    [*range(0x20), 0x22, 0x27, 0x5C, 0x7F, 0x85, 0x2028, 0x202E, 0xFDFA, 0xFFFE, 0xFFFF, 0x1F642, 0x10FFFF],
)
def test_whatever_a_worker_calls_its_method_is_drawn(number: int) -> None:
    """XML has no character for some of them, and the drawing library ends the process over one."""
    name = f"a{chr(number)}<&b"

    for text in (name, f"{name}{chr(number) * 60}"):
        assert plots.ranked([(text, 1.0)], "attempts").startswith(b"\x89PNG")
        assert plots.over_versions([(1, text, text, 0.5)], text).startswith(b"\x89PNG")


def test_a_name_that_can_be_drawn_stays_as_it_is() -> None:
    spec = {"title": "Übung 🙂\t", "values": [{"x": 1.5, "y": None}]}

    assert plots.drawable(spec) == spec
    assert plots.drawable(["a\0b", "\ufffe", "a\nb"]) == ["a\ufffdb", "\ufffd", "a b"]
