"""The C of a program around its tables and its launches, with `$name` where they go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from string import Template


def filled(text: str, **parts: str | Iterable[str]) -> Iterator[str]:
    """The lines of a text of C with `$name` replaced: in a line by words, alone on one by lines."""
    for line in text.strip("\n").splitlines():
        part = parts.get(line.removeprefix("$"), "")
        if line.startswith("$") and not isinstance(part, str):
            yield from part
        else:
            yield Template(line).substitute(parts)
    yield ""


TABLES = """
static const struct kernel kernels[KERNELS + 1] = {
$kernels
    {NULL, 0, 0},
};

static const struct target targets[TARGETS] = {
$targets
};
"""

SETTLE = """
/* What the sizes decide: the launches that are made, and where in the workspace each tensor lies. */
struct layout {
  unsigned char made[LAUNCHES + 1];
  int64_t place[ITEMS + 1];
  int64_t bytes;
};

struct touch {
  short launch, item;
};

static const struct touch touches[] = {
$touches
    {-1, -1},
};

static int settle($told) {
  struct item items[ITEMS + 1];
$decided
  memset(items, 0, sizeof items);
$extents
$chosen
  for (int n = 0; n < ITEMS; ++n) {
    items[n].number = n;
    items[n].first = LAUNCHES;
    items[n].last = -1;
  }
  for (const struct touch *touch = touches; touch->launch >= 0; ++touch) {
    struct item *item = &items[touch->item];
    if (!layout->made[touch->launch]) continue;
    if (item->first == LAUNCHES) item->first = touch->launch;
    item->last = touch->launch;
  }
  for (int n = 0; n < ITEMS; ++n)
    if (items[n].last < 0) items[n].bytes = 0;
$filled
  layout->bytes = pack(items, ITEMS);
  for (int n = 0; n < ITEMS; ++n) layout->place[items[n].number] = items[n].place;
  return 0;
}
"""

KNOWN = """  static _Thread_local int64_t known_sizes[SIZES];
  const int64_t sizes[SIZES] = {SYMBOLS};
  is_known = is_known && memcmp(known_sizes, sizes, sizeof sizes) == 0;"""

LAYOUT = """
/* The layout for these sizes, which each thread remembers; NULL on a fault. */
static const struct layout *layout_of($told) {
  static _Thread_local struct layout known;
  static _Thread_local int is_known;
$known
  *fault = 0;
  if (!is_known) {
    *fault = settle($settled);
    is_known = !*fault;
$kept
  }
  return is_known ? &known : NULL;
}
"""

NOTHING_ONCE = """
/* What is computed of the weights when the program is created. */
static int compute_once(const PROGRAM *program) {
  (void)program;
  return 0;
}
"""

ONCE = """
/* What is computed of the weights when the program is created. */
static int compute_once(const PROGRAM *program) {
  struct call call = {program, NULL, 0};
  int fault;
$addresses
$launches
  MUST(cuStreamSynchronize(NULL), "what is computed of the weights");
  return 0;
}
"""

QUEUE = """
/* The launches of a run, in order. */
static int queue($told) {
  struct call call = {program, stream, 0};
  int fault = 0;
$unused
  (void)workspace, (void)layout, (void)call;
$addresses
$narrow
$filled
$launches
  return fault;
}
"""

FUNCTIONS = """
int ${name}_create(const char *data, int device, ${name}_program **program) {
  int fault;
  PROGRAM *made = calloc(1, sizeof *made);
  *program = NULL;
  if (made == NULL) return fail(NO_MEMORY, "the program", "the host has no memory");
  fault = start(made, data, device);
  if (fault) finish(made);
  else *program = made;
  return fault;
}

void ${name}_destroy(${name}_program *program) {
  if (program != NULL) finish(program);
}

const char *${name}_error(void) { return fault_text; }

int ${name}_workspace_bytes($asked) {
  int fault;
  const struct layout *layout = layout_of($named);
  if (layout) *bytes = (size_t)layout->bytes;
  return fault;
}

int ${name}_run($told) {
  CUcontext popped;
  int fault;
  const struct layout *layout = layout_of($named);
  if (!layout) return fault;
$checked
  fault = layout->bytes ? check_address(workspace, 256, "the workspace") : 0;
  if (fault) return fault;
  MUST(cuCtxPushCurrent(program->context), "the GPU");
  fault = queue($given);
  cuCtxPopCurrent(&popped);
  return fault;
}
"""

RESET = """
int ${name}_reset($told) {
  CUcontext popped;
  CUresult result;
  MUST(cuCtxPushCurrent(program->context), "the GPU");
  result = CUDA_SUCCESS;
$copied
  cuCtxPopCurrent(&popped);
  return result == CUDA_SUCCESS ? 0 : driver_fault(result, "the states");
}
"""
