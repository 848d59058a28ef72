"""Names that are free among those taken."""

from __future__ import annotations

import pytest

from tinyir.kit.names import FreeNames


class Counted(set):
    """A set that counts how often it is asked."""

    asked = 0

    def __contains__(self, name: object) -> bool:
        self.asked += 1
        return super().__contains__(name)


@pytest.mark.parametrize("count", [10, 100])
def test_many_names_of_one_base_take_as_many_steps(count: int) -> None:
    names = FreeNames()
    names.taken = Counted()
    assert len({names.name("y") for _ in range(count)}) == count
    assert names.taken.asked <= 4 * count


def test_a_name_is_neither_taken_nor_reserved() -> None:
    names = FreeNames({"y", "y_3"}, "{}_{}".format)
    assert [names.name("y", {"y_2"}), names.name("y"), names.name("x", {"x"}), names.name("z")] == [
        "y_4",
        "y_5",
        "x_2",
        "z",
    ]
    names.taken.discard("z")
    assert names.name("z") == "z"
