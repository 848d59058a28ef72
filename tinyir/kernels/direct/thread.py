"""What a thread of a direct kernel does: folds of windows from registers that hold a row of the image."""

from __future__ import annotations

from ...ir.accumulate import cast, fold_word, literal, start_of, widened
from ...ir.body import Binary, Body, Index, Read, Reduce, Ref, Select, rebuild, walk
from ...ir.expr import ZERO, Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Place, Statement
from ...ir.neighbours import is_multiple
from ...ir.region import Region
from ...ir.runs import Run
from ...ir.types import DType
from ...kit.records import dataclass, field
from ..parts.element_vectors import written_beside
from ..parts.fold import Accumulator, type_of
from ..parts.guards import guarded_axes
from ..parts.point import Fresh, Point, Values, substitute_here
from ..parts.side_by_side import SideBySide
from ..parts.statements import Statements
from ..windowed import Fold, Image, Windowed
from .block import Block, is_one_access, names_of, store_width
from .grid import WORDS, Grid

Tap = tuple[tuple[Bound, ...], nodes.Let]  # under which guard a row is a tap of a row of results, and which one


@dataclass
class Thread:
    """Writes what a thread does. `row`, `column` and `turn` name the result of the block, the last among neighbours;
    `slot` is the row of results among the `slots` that registers hold, `done` that of the results that are whole."""

    region: Region
    kernel: Windowed
    fresh: Fresh
    block: Block
    grid: Grid
    sums: dict[Reduce, str] = field(default_factory=dict)
    kept: dict[Body, Body] = field(default_factory=dict)

    def __post_init__(self) -> None:
        of, block = self.fresh.of, self.block
        self.turn = of("v")
        self.slots = block.rows
        self.row = self.slot = self.done = Expr.of(of("p")) if block.rows > 1 else ZERO
        self.column = Expr.of(of("q")) if block.columns > 1 else ZERO

    def statements(self) -> tuple[Statement, ...]:
        """The folds one after another, then what follows them."""
        lines: list[Statement] = []
        for fold in self.kernel.folds:
            lines += self._fold(fold)
        return (*lines, *self.results())

    def folding_row(self) -> Expr:
        """The row of results that takes in a row of the image."""
        return self.row

    def point(self, row: Expr | None = None) -> dict[str, Expr]:
        """The axes at a result of the block."""
        point = {a.name: Expr.of(a.name) for a in self.kernel.axes}
        for axes, at in ((self.kernel.rows, self.row if row is None else row), (self.kernel.columns, self.column)):
            point |= {a.name: Expr.of(a.name) + at for a in axes}
        return point

    def index(self) -> tuple[Expr, ...]:
        """Where registers hold what belongs to a result."""
        wide = (Expr.of(self.turn),) if self.block.wide > 1 else ()
        return (self.slot, self.column, *wide)

    # --- a fold

    def _fold(self, fold: Fold) -> list[Statement]:
        name, register = self.held_sums(fold)
        lines = self._rows(fold, name)
        for axis in reversed(fold.beside):
            lines = [nodes.For(axis.name, ZERO, axis.size, tuple(lines))]
        return [register, *lines]

    def held_sums(self, fold: Fold) -> tuple[str, Statement]:
        """The registers of a fold's results."""
        reduce, block = fold.reduce, self.block
        name = self.fresh.name(f"{self._name_of(reduce)}.acc")
        self.sums[reduce] = name
        shape = (self.slots, block.columns, *((block.wide,) if block.wide > 1 else ()))
        dtype = widened(reduce).dtype
        return name, nodes.Reg(name, type_of(dtype, *shape), init=start_of(reduce.op, reduce.dtype))

    def _name_of(self, reduce: Reduce) -> str:
        return next((let.name for let in self.region.lets if reduce in walk(let.expr)), self.region.yields[0].output)

    def _rows(self, fold: Fold, name: str) -> list[Statement]:
        """All rows that the block's windows cover."""
        first = fold.images[0]
        if first.rows is None:
            return self.of_row(fold, name, ZERO)
        if self.block.rows == 1:
            at = Expr.of(first.rows.tap.name)
            lines = self.of_row(fold, name, at)
        else:
            at = Expr.of(self.fresh.of("r"))
            lines = self.of_row(fold, name, at, self._tap_of(first, at))
        count = self.block.image_rows(first)
        return [nodes.For(str(at), ZERO, Expr.of(count), tuple(lines), unroll=0 if self.block.is_written else 1)]

    def _tap_of(self, image: Image, at: Expr) -> Tap:
        """Under which guard the row is a tap of a row of results, and the tap."""
        slide, step = image.rows, self.block.row_step(image)
        behind = step * at - slide.step * self.row
        tap = behind // slide.spread
        guard = (Bound(tap, ZERO, Expr.of(slide.taps)),)
        if not is_multiple(behind, slide.spread):
            guard += (Bound(slide.spread * tap, equals=behind),)
        return guard, nodes.Let(slide.tap.name, tap)

    def of_row(self, fold: Fold, name: str, at: Expr, tap: Tap | None = None) -> list[Statement]:
        """A row of the images, and what the rows of results fold of it."""
        held = {image: self.fresh.name(f"{image.read.tensor}.row") for image in fold.images}
        lines: list[Statement] = []
        for image, register in held.items():
            lines += [self.row_of(image, register), *self.fetched(image, register, at)]
        return [*lines, *self.folded(fold, name, held, tap)]

    def folded(self, fold: Fold, name: str, held: dict[Image, str], tap: Tap | None) -> list[Statement]:
        """What the rows of results fold of a row of the images that registers hold."""
        lines: list[Statement] = []
        inside = Step(self, fold, name, held, known=dict(self.kept)).statements()
        if fold.is_of_elements and self.slots > 1:
            folded = self.fresh.name(f"{self._name_of(fold.reduce)}.row")
            lines += self._row_folded(fold, folded, held)
            inside = self.over_results([self._step(fold, name, self.index(), folded, self.index()[1:])])
        if tap is not None:
            guard, let = tap
            inside = [nodes.If(guard, (let, *inside))] if guard else [let, *inside]
        return [*lines, *loops(((self.slot, self.slots),), inside)]

    def _row_folded(self, fold: Fold, name: str, held: dict[Image, str]) -> list[Statement]:
        """What the taps of a row fold to, for each result along it, whichever rows of results take it."""
        block, reduce, (image,) = self.block, widened(fold.reduce), fold.images
        shape = (block.columns, *((block.wide,) if block.wide > 1 else ()))
        tap = image.columns.tap
        wide = (Expr.of(self.turn),) if self.kernel.is_across and block.of_access(image) > 1 else ()
        source = (block.place_of(image, self.column, Expr.of(tap.name)), *wide)
        step = self._step(fold, name, self.index()[1:], held[image], source, image.read.dtype)
        loop = nodes.For(tap.name, ZERO, tap.size, tuple(self.over_results([step])), unroll=0)
        return [nodes.Reg(name, type_of(reduce.dtype, *shape), init=start_of(reduce.op, fold.reduce.dtype)), loop]

    def _step(
        self,
        fold: Fold,
        name: str,
        at: tuple[Expr, ...],
        source: str,
        place: tuple[Expr, ...],
        dtype: DType | None = None,
    ) -> Statement:
        """Registers take in what others hold."""
        reduce = widened(fold.reduce)
        element = cast(Read(source, place, dtype or reduce.dtype), reduce.dtype)
        held = Read(name, at, reduce.dtype)
        return nodes.Assign(Place(name, at), Binary(fold_word(reduce.op, reduce.dtype), held, element, reduce.dtype))

    def over_results(self, lines: list[Statement]) -> list[Statement]:
        """The lines at each result of a row of the block, and at each of its neighbours."""
        wide = Expr.of(self.turn) if self.block.wide > 1 else ZERO
        return loops(((self.column, self.block.columns), (wide, self.block.wide)), lines)

    def row_shape(self, image: Image) -> tuple[int, ...]:
        """Of the registers that hold the part of a row which the block covers."""
        count, loads = self.block.of_access(image), self.block.loads(image)
        return (loads, count) if self.kernel.is_across and count > 1 else (loads * count,)

    def row_of(self, image: Image, register: str) -> Statement:
        """The registers of the part of a row that the block covers."""
        return nodes.Reg(register, type_of(image.read.dtype, *self.row_shape(image)))

    def fetched(self, image: Image, register: str, at: Expr) -> list[Statement]:
        """Registers take the part of a row that the block covers."""
        block, count, loads = self.block, self.block.of_access(image), self.block.loads(image)
        place = Expr.of(self.fresh.of("c")) if loads > 1 else ZERO
        index = list(image.read.index)
        if image.rows is not None:
            slide = image.rows
            index[slide.dim] = slide.step * Expr.of(slide.axis.name) + block.row_step(image) * at + slide.low
        slide = image.columns
        step = block.place_step(image) if self.kernel.is_across else count
        low = slide.low - block.ahead(image)
        index[slide.dim] = slide.step * Expr.of(slide.axis.name) + step * place + low
        guard = self._inside(image, tuple(index))
        is_wide = count > 1
        turn = Expr.of(self.turn) if is_wide else ZERO
        if self.kernel.is_across:
            to = (place, turn) if is_wide else (place,)
            along = self.kernel.planes[-1].name
            source = tuple(e.substitute({along: Expr.of(along) + turn}) for e in index)
        else:
            to = (count * place + turn,)
            source = tuple(e + turn if n == slide.dim else e for n, e in enumerate(index))
        over = ((self.turn, Expr.of(count)),) if is_wide else ()
        read = Read(image.read.tensor, source, image.read.dtype)
        fetch: list[Statement] = [nodes.Assign(Place(register, to), read, over, count)]
        if guard:
            other = image.outside or literal(0, read.dtype)
            fetch = [nodes.If(guard, tuple(fetch), (nodes.Assign(Place(register, to), other, over),))]
        return loops(((place, loads),), fetch)

    def _inside(self, image: Image, index: tuple[Expr, ...]) -> tuple[Bound, ...]:
        """The guard of an access: what the region asks, and where blocks hang over the end of the results, that memory
        is there."""
        shape = self.region.tensor(image.read.tensor).type.shape
        along = {s.dim: word for word, s in (("rows", image.rows), ("columns", image.columns)) if s is not None}
        found: dict[Bound, None] = {}
        for dim, word in along.items():
            last = self.block.access - 1 if dim == image.columns.dim and not self.kernel.is_across else 0
            bounds = [b for d, b in image.inside if d == dim]
            if self._hangs_over(word) or last and image.inside or word == "rows" and self.reads_on(image):
                bounds.append(Bound(index[dim], upper=shape[dim]))
            lowers = dict.fromkeys(b.lower for b in bounds if b.lower is not None)
            uppers = dict.fromkeys(b.upper for b in bounds if b.upper is not None)
            for n in range(max(len(lowers), len(uppers))):
                low = [*lowers][n] if n < len(lowers) else None
                high = [*uppers][n] - last if n < len(uppers) else None
                found[Bound(index[dim], low, high)] = None
        return (*found, *image.others)

    def _hangs_over(self, word: str) -> bool:
        """Whether a block may have results along a group of axes that there are not."""
        axes, size = dict(zip(WORDS, zip(self.kernel.groups, self.block.reach)))[word]
        return bool(guarded_axes(axes, size))

    def reads_on(self, image: Image) -> bool:
        """Whether rows of the image are read that no window of the block has."""
        return False

    # --- what follows the folds

    def results(self) -> list[Statement]:
        """Values and stores at each result of the block."""
        width = self.block.wide if self.kernel.is_across else store_width(self.region, self.kernel, self.block.columns)
        if self.kernel.is_across or width == 1:
            axis, first, columns = self.kernel.axes[-1], Expr.of(self.kernel.axes[-1].name), self.column
            lets = self.grid.planes_at_first() if self.kernel.is_across else {}
            lines, count = list(self._at_result(width, first, lets, columns)), self.block.columns
        else:
            axis, count = self.kernel.columns[0], self.block.columns // width
            columns = Expr.of(self.fresh.of("c")) if count > 1 else ZERO
            name = self.fresh.name(f"{axis.name}.first")
            place = Expr.of(axis.name) + width * columns
            known = {name: place.substitute({axis.name: self.grid.firsts["columns"]})}
            lines = [nodes.Let(name, place), *self._at_result(width, Expr.of(name), known, width * columns)]
        point = {
            "rows": (self.kernel.rows, self.row),
            "columns": (self.kernel.columns, columns * (1 if self.kernel.is_across or width == 1 else width)),
        }
        guard = tuple(
            Bound(Expr.of(a.name) + at, upper=a.size)
            for word, (axes, at) in point.items()
            for a in axes
            if self._hangs_over(word) and at != ZERO
        )
        lines = [nodes.If(guard, tuple(lines))] if guard else lines
        return loops(((self.row, self.block.rows), (columns, count)), lines)

    def _at_result(self, width: int, first: Expr, lets: Point, column: Expr) -> tuple[Statement, ...]:
        """What is done with a result, or with `width` neighbours."""
        index = (self.done, column + (self.turn if width > 1 and not self.kernel.is_across else 0))
        index += (Expr.of(self.turn),) if self.block.wide > 1 else ()
        sums = {
            reduce: cast(Read(name, index, widened(reduce).dtype), reduce.dtype) for reduce, name in self.sums.items()
        }
        writer = _Folded(self.region, self.fresh, sums=sums)
        writer.point |= self.point()
        if width == 1:
            return tuple(writer.at_point(self.region.yields))
        axis = self.kernel.axes[-1]
        run = Run((axis,), width)
        return written_beside(writer, SideBySide(self.region, self.fresh, run, first, lets))


@dataclass
class _Folded(Statements):
    """Statements at a result whose folds registers hold."""

    sums: dict[Reduce, Body] = field(default_factory=dict)

    def _thread_fold(self, accumulator: Accumulator, values: Values, before: list[Statement]) -> Body:
        return self.sums[accumulator.stated]


@dataclass
class Step:
    """What a row of results folds of a row of the images: tap after tap, each at all its results. What is the same for
    all of these is read before them."""

    thread: Thread
    fold: Fold
    name: str
    held: dict[Image, str]
    before: list[Statement] = field(default_factory=list)
    known: dict[Body, Body] = field(default_factory=dict)

    def statements(self) -> list[Statement]:
        """The loop over the taps of a row."""
        thread, reduce = self.thread, widened(self.fold.reduce)
        tap = self.fold.images[0].columns.tap
        self.of_element = {i.element: i for i in self.fold.images}
        element = self._at(reduce.body, is_guarded=False)
        at = thread.index()
        held = Read(self.name, at, reduce.dtype)
        step: list[Statement] = [
            nodes.Assign(
                Place(self.name, at),
                Binary(fold_word(reduce.op, reduce.dtype), held, cast(element, reduce.dtype), reduce.dtype),
            )
        ]
        lines = [*self.before, *thread.over_results(step)]
        return [nodes.For(tap.name, ZERO, tap.size, tuple(lines), unroll=0)]

    def _at(self, body: Body, is_guarded: bool) -> Body:
        """The expression at a result and a tap: images in registers."""
        if body in self.of_element:
            return self._of_image(self.of_element[body])
        if isinstance(body, Read):
            return self._read(body, is_guarded)
        inner = rebuild(body, lambda b: self._at(b, is_guarded or isinstance(body, Select)))
        return substitute_here(inner, self._point()) if isinstance(inner, (Select, Index)) else inner

    def _of_image(self, image: Image) -> Body:
        block, tap = self.thread.block, Expr.of(image.columns.tap.name)
        place = block.place_of(image, self.thread.column, tap)
        wide = (Expr.of(self.thread.turn),) if block.kernel.is_across and block.of_access(image) > 1 else ()
        return Read(self.held[image], (place, *wide), image.read.dtype)

    def _point(self) -> dict[str, Expr]:
        point = self.thread.point(self.thread.folding_row())
        if self.thread.block.wide > 1:
            name = self.thread.block.along
            point[name] = Expr.of(name) + self.thread.turn
        return point

    def _read(self, read: Read, is_guarded: bool) -> Body:
        """A read of another tensor than an image: once for all results of the row, where no guard is around it."""
        if is_guarded:
            return moved(read, self._point())
        if read not in self.known:
            self.known[read] = self._held(read)
        return self.known[read]

    def _held(self, read: Read) -> Body:
        thread, block = self.thread, self.thread.block
        name = block.along
        if name not in names_of(read):
            value = thread.fresh.name(f"{read.tensor}.at")
            self.before.append(nodes.Value(value, read))
            return Ref(value, read.dtype)
        register = thread.fresh.name(f"{read.tensor}.v")
        turn, over = Expr.of(thread.turn), ((thread.turn, Expr.of(block.wide)),)
        value = moved(read, {name: Expr.of(name) + turn})
        is_whole = is_one_access(thread.region, read, name, block.wide)
        self.before += [
            nodes.Reg(register, type_of(read.dtype, block.wide)),
            nodes.Assign(Place(register, (turn,)), value, over, block.wide if is_whole else 1),
        ]
        return Read(register, (turn,), read.dtype)


def moved(read: Read, point: Point) -> Read:
    """A read at another point."""
    return Read(read.tensor, tuple(e.substitute(point) for e in read.index), read.dtype)


def loops(counted: tuple[tuple[Expr, int], ...], lines: list[Statement]) -> list[Statement]:
    """The lines in loops that are written out, the first outermost; none where the number is a constant."""
    for name, count in reversed(counted):
        if name.name is not None:
            lines = [nodes.For(name.name, ZERO, Expr.of(count), tuple(lines), unroll=0)]
    return lines
