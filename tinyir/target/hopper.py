"""Device functions of sm_90a that emitted CUDA calls, rows of `target.intrinsics`: mbarriers, TMA, wgmma, clusters.

A barrier is the 8 bytes of an mbarrier in shared memory; a phase is the parity that the PTX instruction takes.
`a_major` and `b_major` of a wgmma are 0 where the operand is contiguous along k, 1 where it is along m or n. Source:
PTX ISA 8.0 and later, sections on mbarrier, cp.async.bulk.tensor, wgmma, stmatrix, setmaxnreg and griddepcontrol.
"""

from __future__ import annotations

import itertools

from .tma import INLINE, TMA, Rows, asm, one

WGMMA_COLUMNS = tuple(range(8, 257, 8))
WGMMA_TYPES = {"fp16": "f16", "bf16": "bf16"}
WGMMA_BYTES = {"fp8e4m3": "e4m3", "fp8e5m2": "e5m2"}  # of one byte; both operands' rows run along the sum
WGMMA_WORDS = {"tf32": "tf32"}  # fp32, of which 11 bits are read; from shared memory only along the sum
PTX_OF = WGMMA_TYPES | WGMMA_BYTES | WGMMA_WORDS
PRODUCT_BYTES = 32  # along the sum, of one wgmma
WARPGROUP = 128  # threads
WARPGROUP_ROWS = 64  # of its matrix product
HELD_COLUMNS = 8  # of which a thread has four elements one behind another: the least step of a product's columns
ATOM_BYTES = 16  # what a swizzle exchanges: a descriptor counts in these
SWIZZLE_BYTES = 128  # the widest row of a swizzled tile
SPANS = (128, 64, 32)  # bytes of such rows
HELD = ("fp16", "bf16", "fp32")  # of an output to which a warpgroup stores its accumulator


def _shape(columns: int, dtype: str) -> str:
    return f"m64n{columns}k{PRODUCT_BYTES // (4 if dtype in WGMMA_WORDS else 1 if dtype in WGMMA_BYTES else 2)}"


def _wgmma(columns: int, left: str, right: str) -> tuple[str, str]:
    """Both operands in shared memory. Of 16 bits each may run along the sum or across it; bytes, which may be of two
    kinds, and words run along it. The unit sums the products of bytes with some 14 bits: what is further behind the
    largest of them is cut off."""
    count, is_turnable = columns // 2, left in WGMMA_TYPES
    shape, kind = _shape(columns, left), f"{PTX_OF[left]}.{PTX_OF[right]}"
    name = f"wgmma_{shape}_{left}" + (f"_{right}" if left != right else "")
    registers = [f"%{i}" for i in range(count)]
    results = [f'"+f"(d[{i}])' for i in range(count)]
    majors, given = (f", %{count + 3}, %{count + 4}", ', "n"(a_major), "n"(b_major)') if is_turnable else ("", "")
    lines = [
        *(("template <int a_major, int b_major>",) if is_turnable else ()),
        f"{INLINE}void {name}(float (&d)[{count}], unsigned long long a, unsigned long long b, bool is_added) {{",
        f'  asm volatile("{{ .reg .pred p; setp.ne.b32 p, %{count + 2}, 0; '
        f'wgmma.mma_async.sync.aligned.{shape}.f32.{kind} {{"',
        *(f'    "{", ".join(registers[i : i + 16])}{"," if i + 16 < count else ""} "' for i in range(0, count, 16)),
        f'    "}}, %{count}, %{count + 1}, p, 1, 1{majors}; }}"',
        *(
            f"    {':' if i == 0 else ' '} {', '.join(results[i : i + 8])}{',' if i + 8 < count else ''}"
            for i in range(0, count, 8)
        ),
        f'    : "l"(a), "l"(b), "r"((int)is_added){given});',
        "}",
    ]
    return name, "\n".join(lines)


def _wgmma_of_registers(columns: int, dtype: str) -> tuple[str, str]:
    """A from registers: of 16 bits 16 columns of an accumulator packed in their order, a[i] holding
    elements 2i and 2i + 1; a word each for TF32, a[2h + v] element (lane/4 + 8v, lane mod 4 + 4h) of a warp's 16 x
    8."""
    count, is_turnable = columns // 2, dtype in WGMMA_TYPES
    shape, kind = _shape(columns, dtype), PTX_OF[dtype]
    major, given = (f", %{count + 6}", ', "n"(b_major)') if is_turnable else ("", "")
    name = f"wgmma_{shape}_{dtype}_of_registers"
    held = ", ".join(f"%{i}" for i in range(count))
    results = ", ".join(f'"+f"(d[{i}])' for i in range(count))
    lines = [
        *(("template <int b_major>",) if is_turnable else ()),
        f"{INLINE}void {name}(float (&d)[{count}], const unsigned int (&a)[4], unsigned long long b, bool is_added) {{",
        f'  asm volatile("{{ .reg .pred p; setp.ne.b32 p, %{count + 5}, 0; '
        f'wgmma.mma_async.sync.aligned.{shape}.f32.{kind}.{kind} {{"',
        f'    "{held}}}, {{%{count}, %{count + 1}, %{count + 2}, %{count + 3}}}, %{count + 4}, p, 1, 1{major}; }}"',
        f'    : {results} : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)is_added){given});',
        "}",
    ]
    return name, "\n".join(lines)


TYPES: Rows = (("tensor_map", "struct alignas(64) tensor_map { char bytes[128]; };"),)
GUARDED: Rows = (
    one("unsigned int shared_address(const void *p)", "return (unsigned int)__cvta_generic_to_shared(p);"),
    one(
        "unsigned int pair_of_fp16(float low, float high)",
        'unsigned int y; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low)); return y;',
    ),
    one(
        "unsigned int pair_of_bf16(float low, float high)",
        'unsigned int y; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low)); return y;',
    ),
    one(
        "unsigned int difference_of_pairs(unsigned int a, unsigned int b)",
        'unsigned int y; asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b)); return y;',
    ),
    one(
        "unsigned int product_of_pairs(unsigned int a, unsigned int b)",
        'unsigned int y; asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b)); return y;',
    ),
    # Bytes i and j of words, neighbours or one, with another above each.
    one(
        "unsigned int bytes_of(const unsigned int *words, int i, int j, unsigned int above)",
        'unsigned int y; asm("prmt.b32 %0, %1, %2, %3;" : "=r"(y) : "r"(words[i / 4]), "r"(above), '
        '"r"(i % 4 | j % 4 << 8 | 0x4040)); return y;',
    ),
    # One instruction: left to the compiler the two operations stay two, since both have a number of their own.
    one(
        "unsigned int raised_pair(unsigned int word, unsigned int mask, unsigned int by)",
        'unsigned int y; asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(y) : "r"(word), "r"(mask), "r"(by)); return y;',
    ),
    one(
        "void mbarrier_init(unsigned long long *barrier, int count)",
        asm("mbarrier.init.shared::cta.b64 [%0], %1;", '"r"(shared_address(barrier))', '"r"(count)'),
    ),
    # Predicated here, not by the compiler, which would leave the address of other lanes undefined: compute-sanitizer
    # looks at every lane's.
    one(
        "void mbarrier_init_if(bool is_chosen, unsigned long long *barrier, int count)",
        asm(
            "{ .reg .pred p; setp.ne.b32 p, %2, 0; @p mbarrier.init.shared::cta.b64 [%0], %1; }",
            '"r"(shared_address(barrier))',
            '"r"(count)',
            '"r"((int)is_chosen)',
        ),
    ),
    one(
        "void mbarrier_expect(unsigned long long *barrier, int bytes)",
        asm("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;", '"r"(shared_address(barrier))', '"r"(bytes)'),
    ),
    one(
        "void mbarrier_arrive(unsigned long long *barrier)",
        asm("mbarrier.arrive.shared::cta.b64 _, [%0];", '"r"(shared_address(barrier))'),
    ),
    # Without .release.cluster, which waits for all of this thread's writes to memory: nothing but reads of the slot
    # must come before.
    one(
        "void mbarrier_arrive_at(unsigned long long *barrier, int cta)",
        asm(
            "{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; mbarrier.arrive.shared::cluster.b64 _, "
            "[there]; }",
            '"r"(shared_address(barrier))',
            '"r"(cta)',
        ),
    ),
    one(
        "void mbarrier_wait(unsigned long long *barrier, unsigned int phase)",
        asm(
            "{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @p bra done; bra "
            "again; done: }",
            '"r"(shared_address(barrier))',
            '"r"(phase)',
        ),
    ),
    one("void fence_mbarrier_init()", asm("fence.mbarrier_init.release.cluster;")),
    one("void fence_async_proxy()", asm("fence.proxy.async.shared::cta;")),
    # Not .aligned: behind roles the lanes of a warp need not have come together again.
    one("void cluster_barrier()", asm("barrier.cluster.arrive.release; barrier.cluster.wait.acquire;")),
    one("void cluster_arrive()", asm("barrier.cluster.arrive.release;")),
    # Orders nothing: a release waits some 700 clocks for all that the thread has written.
    one("void cluster_arrive_relaxed()", asm("barrier.cluster.arrive.relaxed;")),
    one("void cluster_wait()", asm("barrier.cluster.wait.acquire;")),
    one("unsigned int cluster_rank()", 'unsigned int y; asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(y)); return y;'),
    # The address alone is PTX: an ordinary load keeps its place among barriers, and the compiler may have several on
    # their way.
    one(
        "float load_of_cta(const float *place, int cta)",
        'const float *there; asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(place), "r"(cta)); return *there;',
    ),
    # Of this CTA's shared memory to where `to` is in another's; they land on that one's barrier.
    one(
        "void send_to_cta(void *to, const void *from, int bytes, unsigned long long *barrier, int cta)",
        asm(
            "{ .reg .b32 there, on; mapa.shared::cluster.u32 there, %0, %4; mapa.shared::cluster.u32 on, %3, %4; "
            "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [there], [%1], %2, [on]; }",
            '"r"(shared_address(to))',
            '"r"(shared_address(from))',
            '"r"(bytes)',
            '"r"(shared_address(barrier))',
            '"r"(cta)',
        ),
    ),
    # Registers have no address: of two the one that is meant, and no two ways through what follows.
    one(
        "float one_of(bool is_first, float a, float b)",
        'float y; asm("{ .reg .pred p; setp.ne.b32 p, %1, 0; selp.f32 %0, %2, %3, p; }" : "=f"(y) : '
        '"r"((int)is_first), "f"(a), "f"(b)); return y;',
    ),
    one(
        "unsigned int address_in_cta(const void *p, int cta)",
        'unsigned int y; asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(y) : "r"(shared_address(p)), '
        '"r"(cta)); return y;',
    ),
    # Of this thread's registers, to and on what `address_in_cta` gives.
    one(
        "void send_words(unsigned int to, float a, float b, float c, float d, unsigned int barrier)",
        asm(
            "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];",
            '"r"(to)',
            '"f"(a)',
            '"f"(b)',
            '"f"(c)',
            '"f"(d)',
            '"r"(barrier)',
        ),
    ),
    one("void named_barrier_arrive(int number, int threads)", asm("bar.arrive %0, %1;", '"r"(number)', '"r"(threads)')),
    one("void warpgroup_barrier(int number)", asm("bar.sync %0, 128;", '"r"(number)')),
    one("void named_barrier(int number, int threads)", asm("bar.sync %0, %1;", '"r"(number)', '"r"(threads)')),
    *TMA,
    one("void prefetch_map(const tensor_map *map)", asm("prefetch.tensormap [%0];", '"l"(map)')),
    # No access to memory moves over the wait: neither the compiler's, which `memory` tells, nor the assembler's, which
    # takes it for a fence.
    one("void wait_previous()", asm("griddepcontrol.wait;")),
    one("void launch_next()", asm("griddepcontrol.launch_dependents;")),
    one("void tma_store_commit()", asm("cp.async.bulk.commit_group;")),
    (
        "tma_store_wait_written",
        f"template <int pending> {INLINE}void tma_store_wait_written() {{ asm "
        f'volatile("cp.async.bulk.wait_group %0;" :: "n"(pending) : "memory"); }}',
    ),
    (
        "tma_store_wait",
        f'template <int pending> {INLINE}void tma_store_wait() {{ asm volatile("cp.async.bulk.wait_group.read '
        f'%0;" :: "n"(pending) : "memory"); }}',
    ),
    one("void wgmma_fence()", asm("wgmma.fence.sync.aligned;")),
    one("void wgmma_commit()", asm("wgmma.commit_group.sync.aligned;")),
    (
        "wgmma_wait",
        f'template <int pending> {INLINE}void wgmma_wait() {{ asm volatile("wgmma.wait_group.sync.aligned %0;" '
        f':: "n"(pending) : "memory"); }}',
    ),
    *(_wgmma(columns, dtype, dtype) for dtype in PTX_OF for columns in WGMMA_COLUMNS),
    *(_wgmma(columns, *pair) for pair in itertools.permutations(WGMMA_BYTES) for columns in WGMMA_COLUMNS),
    *(_wgmma_of_registers(columns, dtype) for dtype in (*WGMMA_TYPES, *WGMMA_WORDS) for columns in WGMMA_COLUMNS),
    (
        "take_registers",
        f'template <int count> {INLINE}void take_registers() {{ asm volatile("setmaxnreg.inc.sync.aligned.u32 '
        f'%0;" :: "n"(count)); }}',
    ),
    (
        "give_registers",
        f'template <int count> {INLINE}void give_registers() {{ asm volatile("setmaxnreg.dec.sync.aligned.u32 '
        f'%0;" :: "n"(count)); }}',
    ),
    one(
        "void stmatrix_x4(void *to, unsigned int a, unsigned int b, unsigned int c, unsigned int d)",
        asm(
            "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};",
            '"r"(shared_address(to))',
            '"r"(a)',
            '"r"(b)',
            '"r"(c)',
            '"r"(d)',
        ),
    ),
)


def _piece(dtype: str, is_turned: bool) -> tuple[str, str]:
    turned, trans = ("_turned", "_trans") if is_turned else ("", "")
    row, column = ("lane % 8 + 8 * (lane / 16)", "lane / 8 % 2") if is_turned else ("lane % 16", "lane / 16")
    return (
        f"store{turned}_piece_{dtype}",
        f"""\
// A warp's 16 x 16 piece of an accumulator, each thread's eight values in the order in which wgmma leaves them, into a swizzled tile{", transposed" if is_turned else ""}.
template <int span>
{INLINE}void store{turned}_piece_{dtype}({dtype} *tile, int row, int column, const float (&x)[8]) {{
  const int lane = (int)threadIdx.x % 32;
  const int place = swizzled<span>((row + {row}) * span + 2 * (column + 8 * ({column})));
  stmatrix_x4{trans}((unsigned char *)tile + place, pair_of_{dtype}(x[0], x[1]), pair_of_{dtype}(x[2], x[3]), pair_of_{dtype}(x[4], x[5]), pair_of_{dtype}(x[6], x[7]));
}}""",  # noqa: E501
    )


def _held(dtype: str) -> tuple[str, str]:
    """Two neighbours of an accumulator are a word, of fp32 two."""
    words, c = (2, "float") if dtype == "fp32" else (1, dtype)
    packed = (
        [f"__float_as_uint(x[8 * piece + 2 * i + {h}])" for h in range(2)]
        if words == 2
        else [f"pair_of_{dtype}(x[8 * piece + 2 * i], x[8 * piece + 2 * i + 1])"]
    )
    pairs = " ".join(f"w[{h}][i] = {value};" for h, value in enumerate(packed))
    fours = (
        ["w[0][0], w[0][1], w[0][2], w[0][3]"]
        if words == 1
        else [f"w[0][{2 * h}], w[1][{2 * h}], w[0][{2 * h + 1}], w[1][{2 * h + 1}]" for h in range(2)]
    )
    stores = " ".join(f"((uint4 *)(place + 16 * piece))[{h}] = make_uint4({four});" for h, four in enumerate(fours))
    one = "x[e]" if words == 2 else f"{dtype}_of_float(x[e])"
    return (
        f"store_held_{dtype}",
        f"""\
// 64 x `columns` of an accumulator to rows of which the first begins at `to`, `high` of them inside, and `wide` elements of each. Where rows begin on 16 bytes, as may be
// known, the four lanes that hold two rows' pairs exchange them: each then has eight neighbours of one row.
template <int columns, bool is_known> {INLINE}void store_held_{dtype}({c} *to, long long pitch, const float (&x)[columns / 2], int high, int wide) {{
  const int quad = (int)threadIdx.x % 4, row = (int)threadIdx.x % 128 / 32 * 16 + (int)threadIdx.x % 32 / 4;
  if (is_known || (pitch * (int)sizeof({c}) % 16 == 0 && (unsigned long long)to % 16 == 0 && (wide % 8 == 0 || wide > columns))) {{
    const int own = row + 8 * (quad % 2), first = 8 * (quad / 2);
    {c} *const place = to + own * pitch + first;
    #pragma unroll
    for (int piece = 0; piece < columns / 16; ++piece) {{
      unsigned int w[{words}][4];
      #pragma unroll
      for (int i = 0; i < 4; ++i) {{ {pairs} }}
      #pragma unroll
      for (int h = 0; h < {words}; ++h) turn_quad(w[h], quad);
      if (own < high && 16 * piece + first < wide) {{ {stores} }}
    }}
  }} else {{
    #pragma unroll
    for (int e = 0; e < columns / 2; ++e) {{
      const int r = row + 8 * (e / 2 % 2), n = 8 * (e / 4) + 2 * quad + e % 2;
      if (r < high && n < wide) to[r * pitch + n] = {one};
    }}
  }}
}}""",  # noqa: E501
    )


PLAIN: Rows = (
    (
        "mbarriers_init",
        f"""\
// The barriers of a ring, each by the first lane of another of the CTA's warps, as one takes some 20 clocks. What a warp has set up, all its lanes may use.
template <int ring, int warps> {INLINE}void mbarriers_init(unsigned long long *barriers, int count) {{
  #pragma unroll
  for (int first = 0; first < ring; first += warps) {{
    const int i = first + (int)threadIdx.x / 32;
    mbarrier_init_if((int)threadIdx.x % 32 == 0 && i < ring, &barriers[i], count);
  }}
  __syncwarp();
}}""",  # noqa: E501
    ),
    (
        "hand_turn",
        f"""\
// One thread hands the number that it has drawn on to the warps of other roles, which may be some numbers behind.
template <int ring> {INLINE}void hand_turn(int *numbers, unsigned long long *full, unsigned long long *empty, int &slot, unsigned int &phase, int &own, int next) {{
  mbarrier_wait(&empty[slot], phase);
  numbers[slot] = next;
  mbarrier_arrive(&full[slot]);
  own = next;
  if (++slot == ring) {{ slot = 0; phase ^= 1; }}
}}""",  # noqa: E501
    ),
    (
        "take_turn",
        f"""\
// A warp takes the next number, which its first lane reads.
template <int ring> {INLINE}void take_turn(const int *numbers, unsigned long long *full, unsigned long long *empty, int &slot, unsigned int &phase, int &own) {{
  mbarrier_wait(&full[slot], phase);
  __syncwarp();
  int number = 0;
  if ((int)threadIdx.x % 32 == 0) {{
    number = numbers[slot];
    mbarrier_arrive(&empty[slot]);
  }}
  own = __shfl_sync(0xffffffffu, number, 0);
  if (++slot == ring) {{ slot = 0; phase ^= 1; }}
}}""",  # noqa: E501
    ),
    (
        "swizzled",
        f"""\
// A byte of a tile whose rows are `span` bytes, where the swizzle puts it: 16-byte pieces are exchanged by the row's number.
template <int span> {INLINE}int swizzled(int byte) {{ return byte ^ (byte >> 3 & (span - 16)); }}""",  # noqa: E501
    ),
    (
        "swizzled_at",
        f"""\
// An element of such a tile.
template <int span, class T> {INLINE}T &swizzled_at(T *tile, int row, int column) {{
  return *(T *)((unsigned char *)tile + swizzled<span>(row * span + column * (int)sizeof(T)));
}}""",
    ),
    (
        "swizzled_of_lane",
        f"""\
// The same where a thread's columns are those of a quad in every eight: what lanes make of a column and the rest have no bit in common, so that what is not known before is worked out once.
template <int span, class T> {INLINE}T &swizzled_of_lane(T *tile, int row, int of_lane, int column) {{
  const int turned = (row * (span / 8) & (span - 16)) ^ of_lane * (int)sizeof(T), byte = column * (int)sizeof(T);
  return *(T *)((unsigned char *)tile + row * span + (turned ^ (byte & -16)) + (byte & 15));
}}""",  # noqa: E501
    ),
    (
        "wide_at",
        f"""\
// A byte of a swizzled tile of `tall` rows that is wider than a swizzled row: several of them side by side.
template <int span, int tall> {INLINE}const unsigned char *wide_at(const void *tile, int row, int byte) {{
  return (const unsigned char *)tile + byte / span * (tall * span) + swizzled<span>(row * span + byte % span);
}}""",
    ),
    (
        "store_rows",
        f"""\
// `rows` x `columns` of a warpgroup's swizzled tile of `tall` rows to rows that begin anywhere, the first at `to`, of which `high` are inside, and `wide` elements
// of each: whole accesses of 16 bytes, for which the lanes of a row shift what they read, and single elements at both ends. Of at most 128 columns a thread's rows begin alike: they lie whole accesses apart.
template <int rows, int columns, int span, int tall, class T> {INLINE}void store_rows(T *to, long long pitch, const T *tile, int high, int wide) {{
  constexpr int size = (int)sizeof(T), each = 16 / size, pieces = columns / each;
  constexpr int lanes = pieces > 16 ? 32 : pieces > 8 ? 16 : pieces > 4 ? 8 : pieces > 2 ? 4 : 2, together = 128 / lanes;
  const int lane = (int)threadIdx.x % lanes, first = (int)threadIdx.x % 128 / lanes, most = wide < columns ? wide : columns;
  T *start = to + first * pitch;
  const int skew = (int)((unsigned long long)start % 16) / size;  // elements in front of a row that its first whole access also covers
  const int whole = (most + skew) / each, bytes = 16 - size * skew, words = bytes / 4, bits = bytes % 4 * 8;
  const int head = skew == 0 ? 0 : each - skew < most ? each - skew : most, tail = each * whole - skew < head ? head : each * whole - skew;
  const bool is_whole = lane < whole && (lane > 0 || skew == 0);
  #pragma unroll
  for (int turn = 0; turn < (rows + together - 1) / together; ++turn, start += together * pitch) {{
    const int row = together * turn + first;
    const bool is_inside = row < high && row < rows;
    const uint4 own = *(const uint4 *)wide_at<span, tall>(tile, row, 16 * lane), before = *(const uint4 *)wide_at<span, tall>(tile, row, 16 * (lane > 0 ? lane - 1 : 0));
    unsigned int w[8] = {{before.x, before.y, before.z, before.w, own.x, own.y, own.z, own.w}};
    if (words & 4) w[0] = w[4], w[1] = w[5], w[2] = w[6], w[3] = w[7];
    if (words & 2) w[0] = w[2], w[1] = w[3], w[2] = w[4], w[3] = w[5], w[4] = w[6], w[5] = w[7];
    if (words & 1) w[0] = w[1], w[1] = w[2], w[2] = w[3], w[3] = w[4], w[4] = w[5];
    if (is_inside && is_whole)
      *(uint4 *)(start + each * lane - skew) = make_uint4(__funnelshift_r(w[0], w[1], bits), __funnelshift_r(w[1], w[2], bits),
                                                          __funnelshift_r(w[2], w[3], bits), __funnelshift_r(w[3], w[4], bits));
    #pragma unroll
    for (int turned = 0; turned < 2 * each; turned += lanes) {{
      const int single = turned + lane, column = single < head ? single : tail + single - head;
      if (is_inside && single < head + most - tail) start[column] = *(const T *)wide_at<span, tall>(tile, row, size * column);
    }}
  }}
}}""",  # noqa: E501
    ),
    *(_piece(dtype, is_turned) for dtype in ("fp16", "bf16") for is_turned in (False, True)),
    (
        "turn_quad",
        f"""\
// Word i of lane j of four becomes word j of lane i.
{INLINE}void turn_quad(unsigned int (&w)[4], int lane) {{
  #pragma unroll
  for (int apart = 1; apart < 4; apart *= 2) {{
    #pragma unroll
    for (int i = 0; i < 4; ++i)
      if (!(i & apart)) {{
        const unsigned int other = __shfl_xor_sync(0xffffffffu, lane & apart ? w[i] : w[i + apart], apart);
        (lane & apart ? w[i] : w[i + apart]) = other;
      }}
  }}
}}""",
    ),
    *map(_held, HELD),
    (
        "matrix_descriptor",
        f"""\
// What wgmma knows of an operand in shared memory, swizzled by 128 bytes: where it starts, and its strides in bytes.
{INLINE}unsigned long long matrix_descriptor(const void *start, int leading, int stride) {{
  const unsigned long long address = shared_address(start) & 0x3ffff;
  return address >> 4 | (unsigned long long)(leading >> 4) << 16 | (unsigned long long)(stride >> 4) << 32 | 1ull << 62;
}}""",
    ),
    (
        "descriptor_of",
        f"""\
// The same of a tile whose rows are `span` bytes: swizzled by 64 or 32, or by none where they are 16.
template <int span> {INLINE}unsigned long long descriptor_of(const void *start, int leading, int stride) {{
  const unsigned long long code = span == 64 ? 2 : span == 32 ? 3 : 0;
  return matrix_descriptor(start, leading, stride) ^ (1 ^ code) << 62;
}}""",
    ),
    (
        "grouped_tile",
        f"""\
// Tile number `tile` of rows x columns when `width` rows of tiles are taken together, column by column: neighbours in time share L2.
struct tile_place {{ int row, column; }};
{INLINE}tile_place grouped_tile(int tile, int rows, int columns, int width) {{
  const int group = tile / (width * columns), first = group * width, inside = tile - first * columns;
  const int here = rows - first < width ? rows - first : width;
  tile_place place = {{first + inside % here, inside / here}};
  return place;
}}""",  # noqa: E501
    ),
    (
        "turning_tile",
        f"""\
// The same, but that every other group takes its columns from the last to the first.
{INLINE}tile_place turning_tile(int tile, int rows, int columns, int width) {{
  tile_place place = grouped_tile(tile, rows, columns, width);
  if (place.row / width & 1) place.column = columns - 1 - place.column;
  return place;
}}""",
    ),
)
