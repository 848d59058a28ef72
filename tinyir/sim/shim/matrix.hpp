// The matrix units. A warp's instructions are done when its last lane comes. A warpgroup's products are done when all its threads wait for
// them, and as late as that allows; until then their accumulators are poison, and shared memory that they read may not be written.
#pragma once
#include "copies.hpp"
#include "numbers.hpp"

namespace tinyir_sim {

inline float to_float(uint16_t bits, bool is_bf16) { return is_bf16 ? bfloat_to_float(bits) : half_to_float(bits); }

// --- 8x8 tiles of 16-bit elements

struct Tiles {
  unsigned* registers;
  unsigned address;
  int count;
  bool is_transposed, is_store;
  uint64_t code;
  Fiber* fiber;
};

// Element (row, column) of a tile is in lane 4*row + column/2, in half column%2 of the tile's register; of a transposed tile the
// coordinates are exchanged.
inline void complete_tiles(void** payloads, unsigned mask) {
  must(mask == ~0u, "ldmatrix", "lanes", "all 32", __builtin_popcount(mask));
  const Tiles& form = *static_cast<Tiles*>(payloads[0]);
  for (unsigned l = 0; l < kWarp; ++l) {
    const Tiles& lane = *static_cast<Tiles*>(payloads[l]);
    if (lane.count != form.count || lane.is_transposed != form.is_transposed)
      refuse_operand(TINYIR_UNEQUAL, "ldmatrix", "form", "", lane.count, form.count);
  }
  const char* name = form.is_store ? "stmatrix" : "ldmatrix";
  for (int tile = 0; tile < form.count; ++tile)
    for (unsigned row = 0; row < 8; ++row) {
      Tiles& giver = *static_cast<Tiles*>(payloads[8 * tile + row]);
      must(giver.address % 16 == 0, name, "address", "% 16 = 0", giver.address);
      SharedPlace place = place_of(giver.address, 16);
      must(place.block->rank == current->block, name, "address", "of the own block", giver.address);
      uint16_t elements[8];
      if (!form.is_store) {
        note_read(*place.block, *giver.fiber, place.offset, 16, giver.code);
        memcpy(elements, place.data(), 16);
      }
      for (unsigned column = 0; column < 8; ++column) {
        unsigned r = form.is_transposed ? column : row, c = form.is_transposed ? row : column;
        auto* half = reinterpret_cast<uint16_t*>(&static_cast<Tiles*>(payloads[4 * r + c / 2])->registers[tile]) + c % 2;
        if (form.is_store) elements[column] = *half;
        else *half = elements[column];
      }
      if (form.is_store) {
        note_write(*place.block, *giver.fiber, place.offset, 16, giver.code);
        memcpy(place.data(), elements, 16);
      }
    }
}

inline void move_tiles(unsigned* registers, unsigned address, int count, bool is_transposed, bool is_store) {
  Tiles tiles{registers, address, count, is_transposed, is_store, current->code, current};
  meet_lanes(~0u, &tiles, complete_tiles, 0);
}

// --- mma.m16n8k16: with g = lane/4 and q = lane%4, register 2h + v of A holds A[g + 8v][2q + 8h ..], h of B holds B[2q + 8h ..][g], and
// 2v + b of D is D[g + 8v][2q + b].

struct Product {
  float* d;
  const unsigned *a, *b;
  bool is_bf16;
};

inline uint16_t half_of(unsigned word, unsigned which) { return uint16_t(word >> 16 * which); }

inline void complete_mma(void** payloads, unsigned mask) {
  must(mask == ~0u, "mma", "lanes", "all 32", __builtin_popcount(mask));
  float a[16][16], b[16][8];
  for (unsigned l = 0; l < kWarp; ++l) {
    const Product& lane = *static_cast<Product*>(payloads[l]);
    unsigned g = l / 4, q = l % 4;
    for (unsigned e = 0; e < 2; ++e)
      for (unsigned h = 0; h < 2; ++h) {
        for (unsigned v = 0; v < 2; ++v) a[g + 8 * v][2 * q + 8 * h + e] = to_float(half_of(lane.a[2 * h + v], e), lane.is_bf16);
        b[2 * q + 8 * h + e][g] = to_float(half_of(lane.b[h], e), lane.is_bf16);
      }
  }
  for (unsigned l = 0; l < kWarp; ++l) {
    float* d = static_cast<Product*>(payloads[l])->d;
    unsigned g = l / 4, q = l % 4;
    for (unsigned v = 0; v < 2; ++v)
      for (unsigned e = 0; e < 2; ++e) {
        float& sum = d[2 * v + e];
        for (unsigned k = 0; k < 16; ++k) sum += a[g + 8 * v][k] * b[k][2 * q + e];
        sum = with_one_nan(sum);
      }
  }
}

inline void multiply(float* d, const unsigned* a, const unsigned* b, bool is_bf16) {
  Product product{d, a, b, is_bf16};
  meet_lanes(~0u, &product, complete_mma, 0);
}

// --- mma.m16n8k8 of TF32: register 2h + v of A holds A[g + 8v][q + 4h], h of B holds B[q + 4h][g]; the last 13 bits of a word are not looked at.

constexpr int kTf32Bits = 24;  // behind the point of the largest term

inline void complete_mma_tf32(void** payloads, unsigned mask) {
  must(mask == ~0u, "mma", "lanes", "all 32", __builtin_popcount(mask));
  double a[16][8], b[8][8];
  for (unsigned l = 0; l < kWarp; ++l) {
    const Product& lane = *static_cast<Product*>(payloads[l]);
    unsigned g = l / 4, q = l % 4;
    for (unsigned h = 0; h < 2; ++h) {
      for (unsigned v = 0; v < 2; ++v) a[g + 8 * v][q + 4 * h] = tf32_part(lane.a[2 * h + v]);
      b[q + 4 * h][g] = tf32_part(lane.b[h]);
    }
  }
  for (unsigned l = 0; l < kWarp; ++l) {
    float* d = static_cast<Product*>(payloads[l])->d;
    unsigned g = l / 4, q = l % 4;
    for (unsigned e = 0; e < 4; ++e) {
      double terms[9] = {d[e]};
      for (unsigned k = 0; k < 8; ++k) terms[1 + k] = a[g + e / 2 * 8][k] * b[k][2 * q + e % 2];
      d[e] = aligned_sum(terms, 9, kTf32Bits);
    }
  }
}

inline void multiply_tf32(float* d, const unsigned* a, const unsigned* b) {
  Product product{d, a, b, false};
  meet_lanes(~0u, &product, complete_mma_tf32, 0);
}

// --- wgmma

constexpr unsigned kProductBytes = 32;  // of K, of one product
constexpr int kByteBits = 13;           // behind the point of the largest term, where the factors are bytes

inline unsigned bytes_of(Factor kind) { return kind == kTf32 ? 4 : kind >= kE4m3 ? 1 : 2; }

struct Matrix {  // in shared memory, as a descriptor tells: `rows` (of M or N) by 32 bytes (of K); bytes and words always run along K
  uint64_t descriptor;
  unsigned rows;
  bool is_mn_major;
  Factor kind;

  unsigned depth() const { return kProductBytes / bytes_of(kind); }

  unsigned span() const {
    static const unsigned spans[] = {0, 128, 64, 32};
    return spans[descriptor >> 62];
  }
  unsigned field(int at) const { return unsigned(descriptor >> at & 0x3fff) << 4; }

  unsigned address(unsigned row, unsigned k) const {
    unsigned size = bytes_of(kind), start = field(0), leading = field(16), stride = field(32), s = span();
    unsigned in_row = 16 / size;
    if (!s && !is_mn_major) return start + row / 8 * stride + k / in_row * leading + row % 8 * 16 + k % in_row * size;
    if (!s) return start + row / 8 * stride + k / 8 * leading + k % 8 * 16 + row % 8 * 2;
    if (!is_mn_major) return swizzled(start + row / 8 * stride + row % 8 * s + k * size, s);
    return swizzled(start + row / (s / 2) * leading + k / 8 * stride + k % 8 * s + row % (s / 2) * 2, s);
  }

  // Calls `chunk(address, row, k)` for each 16 bytes: elements along k, or along the rows when they are the fastest.
  template <class Chunk>
  void for_chunks(Chunk chunk) const {
    unsigned by_row = is_mn_major ? 8 : 1, by_k = is_mn_major ? 1 : 16 / bytes_of(kind);
    for (unsigned row = 0; row < rows; row += by_row)
      for (unsigned k = 0; k < depth(); k += by_k) chunk(address(row, k), row, k);
  }
};

struct Accumulator {  // [64][n]; thread t of the warpgroup holds row 16*(t/32) + t%32/4 + 8h, column 8j + 2*(t%4) + b as d[4j + 2h + b]
  float* held[kWarpgroup];
  unsigned n, open;  // products that are to come
  uint64_t code;
  std::vector<float> values;

  float& at(unsigned thread, unsigned element) {
    unsigned row = thread / 32 * 16 + thread % 32 / 4 + element % 4 / 2 * 8, column = element / 4 * 8 + thread % 4 * 2 + element % 2;
    return values[row * n + column];
  }
};

struct Wgmma {
  unsigned n, arrived, accumulator;
  bool has_registers, is_accumulated;
  Matrix a, b;
  std::vector<float> left;  // [64][k] when A comes from registers
  std::vector<const unsigned*> registers;  // of each thread
  unsigned fiber;
  uint64_t code;
};

struct Warpgroup {
  std::vector<Wgmma> products;
  std::vector<Accumulator> accumulators;
  std::vector<unsigned> groups;  // the number of products before each commit
  unsigned done = 0, waiting = 0, pending = 0;
};

constexpr uint32_t kPoisonWord = 0xffffffff;

inline Warpgroup& warpgroup_of(const Fiber& fiber) {
  must(fiber.number / kWarpgroup < machine->threads / kWarpgroup, "wgmma", "thread", "of a whole warpgroup", fiber.number);
  return block_of(fiber).warpgroups[fiber.number / kWarpgroup];
}

inline void check_held(const Accumulator& accumulator, unsigned thread) {
  for (unsigned e = 0; e < accumulator.n / 2; ++e) {
    uint32_t word;
    memcpy(&word, accumulator.held[thread] + e, 4);
    if (word == kPoisonWord) continue;
    name_other(*current, accumulator.code);
    fault.is_write = 1;
    leave(TINYIR_ACCUMULATOR);
  }
}

// The open accumulator that the thread holds in `d`, or the number of them.
inline unsigned find_accumulator(const Warpgroup& group, unsigned thread, const float* d, unsigned n) {
  unsigned found = 0;
  while (found < group.accumulators.size() && !(group.accumulators[found].open && group.accumulators[found].held[thread] == d)) ++found;
  if (found < group.accumulators.size() && group.accumulators[found].n != n)
    refuse_operand(TINYIR_UNEQUAL, "wgmma", "n", "", n, group.accumulators[found].n);
  return found;
}

inline unsigned make_accumulator(Warpgroup& group, unsigned n) {
  unsigned slot = 0;
  while (slot < group.accumulators.size() && group.accumulators[slot].open) ++slot;
  if (slot == group.accumulators.size()) group.accumulators.emplace_back();
  Accumulator& made = group.accumulators[slot];
  for (float*& held : made.held) held = nullptr;
  made.n = n;
  made.open = 0;
  made.code = current->code;
  made.values.assign(size_t(64) * n, 0);
  return slot;
}

// The thread's part of the accumulator becomes the unit's; what is there is kept, and poison takes its place.
inline void bring(Accumulator& accumulator, unsigned thread, float* d) {
  if (!current->is_wgmma_fenced) leave(TINYIR_NO_FENCE);
  accumulator.held[thread] = d;
  for (unsigned e = 0; e < accumulator.n / 2; ++e) {
    accumulator.at(thread, e) = d[e];
    memcpy(d + e, &kPoisonWord, 4);
  }
}

inline void check_operand(const Matrix& matrix, const char* name) {
  must((matrix.descriptor >> 49 & 7) == 0, "wgmma", name, "base offset 0", int64_t(matrix.descriptor >> 49 & 7));
  Block& block = block_of(*current);
  matrix.for_chunks([&](unsigned address, unsigned, unsigned) {
    SharedPlace place = place_of(address, 16);
    note_unit_read(block, *current, place.offset);
    block.readers[place.offset / kPin]++;
  });
}

// What thread `thread` holds of A in register `r`: elements of row 16*(t/32) + t%32/4 + 8*(r%2), a word at k = t%4 + 4*(r/2), a pair from 2*(t%4) + 8*(r/2) on.
inline void read_left(const Wgmma& product, unsigned thread, float* left) {
  const unsigned* registers = product.registers[thread];
  for (unsigned r = 0; r < 4; ++r) {
    float* row = left + (thread / 32 * 16 + thread % 32 / 4 + r % 2 * 8) * product.a.depth();
    if (product.a.kind == kTf32)
      row[thread % 4 + r / 2 * 4] = tf32_part(registers[r]);
    else
      for (unsigned e = 0; e < 2; ++e) row[thread % 4 * 2 + r / 2 * 8 + e] = to_float(half_of(registers[r], e), product.a.kind == kBfloat);
  }
}

// A in registers is as it was at the call: the unit may read it until then.
inline void check_factor(const Wgmma& product, Fiber* first) {
  std::vector<float> left = product.left;
  for (unsigned t = 0; t < kWarpgroup && product.has_registers; ++t) {
    read_left(product, t, left.data());
    if (!memcmp(left.data(), product.left.data(), left.size() * sizeof(float))) continue;
    current = first + t;
    name_other(*current, product.code);
    fault.is_write = 1;
    leave(TINYIR_ACCUMULATOR);
  }
}

inline void issue_product(unsigned n, Factor kind, Factor b_kind, bool a_mn, bool b_mn, float* d, const unsigned* registers, uint64_t a, uint64_t b,
                          bool is_accumulated) {
  Warpgroup& group = warpgroup_of(*current);
  unsigned thread = current->number % kWarpgroup, number = current->products++;
  if (number == group.products.size()) {
    Wgmma made{};
    made.n = n;
    made.has_registers = registers != nullptr;
    made.is_accumulated = is_accumulated;
    made.a = Matrix{a, 64, a_mn, kind};
    made.b = Matrix{b, n, b_mn, b_kind};
    if (registers) made.left.resize(64 * made.a.depth()), made.registers.resize(kWarpgroup);
    made.code = current->code;
    made.fiber = current->id;
    made.accumulator = find_accumulator(group, thread, d, n);
    if (made.accumulator == group.accumulators.size()) made.accumulator = make_accumulator(group, n);
    group.accumulators[made.accumulator].open++;
    group.products.push_back(made);
  }
  Wgmma& product = group.products[number];
  const char* name = "wgmma";
  if (product.n != n || product.code != current->code) refuse_operand(TINYIR_UNEQUAL, name, "instruction", "", n, product.n);
  if (!registers && product.a.descriptor != a) refuse_operand(TINYIR_UNEQUAL, name, "a", "", int64_t(a), int64_t(product.a.descriptor));
  if (product.b.descriptor != b) refuse_operand(TINYIR_UNEQUAL, name, "b", "", int64_t(b), int64_t(product.b.descriptor));
  if (product.is_accumulated != is_accumulated) refuse_operand(TINYIR_UNEQUAL, name, "accumulate", "", is_accumulated, product.is_accumulated);
  Accumulator& accumulator = group.accumulators[product.accumulator];
  if (!accumulator.held[thread]) {
    bring(accumulator, thread, d);
  } else if (accumulator.held[thread] != d) {
    refuse_operand(TINYIR_UNEQUAL, name, "d", "", 0);
  } else {
    check_held(accumulator, thread);
  }
  if (registers) product.registers[thread] = registers, read_left(product, thread, product.left.data());
  if (++product.arrived < kWarpgroup) return;
  if (!product.has_registers) check_operand(product.a, "a");  // the last of the four warps has come: now the unit may start
  check_operand(product.b, "b");
}

inline void commit_products() {
  Warpgroup& group = warpgroup_of(*current);
  unsigned number = current->commits++;
  if (number == group.groups.size()) group.groups.push_back(current->products);
  if (group.groups[number] != current->products)
    refuse_operand(TINYIR_UNEQUAL, "wgmma_commit", "products", "", current->products, group.groups[number]);
}

inline void wait_for_products(unsigned pending) {
  Warpgroup& group = warpgroup_of(*current);
  unsigned upto = current->commits > pending ? group.groups[current->commits - pending - 1] : 0;
  if (upto <= group.done) return;
  if (!group.waiting) group.pending = upto;
  if (group.pending != upto) refuse_operand(TINYIR_UNEQUAL, "wgmma_wait", "products", "", upto, group.pending);
  group.waiting++;
  current->wait = TinyirWait{TINYIR_AT_WGMMA, 0, 0, group.waiting, kWarpgroup, {}, current->code};
  if (group.waiting == kWarpgroup) {
    Work work{};
    work.kind = Work::kProducts;
    work.fiber = current->id;
    work.code = current->code;
    work.block = current->block;
    work.warpgroup = current->number / kWarpgroup;
    work.upto = upto;
    machine->work.push_back(work);
  }
  wait_here();
}

inline void read_operand(const Matrix& matrix, Block& block, float* out, unsigned row_step, unsigned k_step) {
  const char* shared = shared_of(block);
  matrix.for_chunks([&](unsigned address, unsigned row, unsigned k) {
    uint8_t bytes[16];
    memcpy(bytes, shared + address, 16);
    unsigned step = matrix.is_mn_major ? row_step : k_step;
    float* to = out + row * row_step + k * k_step;
    if (bytes_of(matrix.kind) == 1)
      for (unsigned e = 0; e < 16; ++e) to[e * step] = byte_to_float(bytes[e], matrix.kind);
    else if (matrix.kind == kTf32)
      for (unsigned e = 0; e < 4; ++e) {
        uint32_t word;
        memcpy(&word, bytes + 4 * e, 4);
        to[e * step] = tf32_part(word);
      }
    else
      for (unsigned e = 0; e < 8; ++e) to[e * step] = to_float(uint16_t(bytes[2 * e] | bytes[2 * e + 1] << 8), matrix.kind == kBfloat);
    block.readers[address / kPin]--;
  });
}

// Sixteen-bit factors: one product after the other in fp32.
inline void add_row(float* row, const float* left, const float* right, unsigned n, unsigned depth) {
  for (unsigned k = 0; k < depth; ++k)
    for (unsigned c = 0; c < n; ++c) row[c] += left[k] * right[k * n + c];
  for (unsigned c = 0; c < n; ++c) row[c] = with_one_nan(row[c]);
}

// Bytes and TF32: all products at once, with a number of bits.
inline void add_row_at_once(float* row, const float* left, const float* right, unsigned n, unsigned depth, int bits) {
  for (unsigned c = 0; c < n; ++c) {
    double terms[1 + kProductBytes] = {row[c]};
    for (unsigned k = 0; k < depth; ++k) terms[1 + k] = double(left[k]) * right[k * n + c];
    row[c] = aligned_sum(terms, int(1 + depth), bits);
  }
}

inline void compute(Warpgroup& group, Block& block, const Wgmma& product) {
  static float a[64 * kProductBytes], b[kProductBytes * 256];
  unsigned n = product.n, depth = product.b.depth();
  if (product.has_registers)
    memcpy(a, product.left.data(), 64 * depth * sizeof(float));
  else
    read_operand(product.a, block, a, depth, 1);
  read_operand(product.b, block, b, 1, n);
  float* d = group.accumulators[product.accumulator].values.data();
  if (!product.is_accumulated) memset(d, 0, size_t(64) * n * sizeof(float));
  unsigned size = bytes_of(product.a.kind);
  for (unsigned m = 0; m < 64; ++m)
    if (size == 2)
      add_row(d + m * n, a + depth * m, b, n, depth);
    else
      add_row_at_once(d + m * n, a + depth * m, b, n, depth, size == 1 ? kByteBits : kTf32Bits);
}

inline void finish_products(const Work& work) {
  Block& block = machine->blocks[work.block];
  Warpgroup& group = block.warpgroups[work.warpgroup];
  Fiber* first = &machine->fibers[work.block * machine->threads + work.warpgroup * kWarpgroup];
  for (unsigned p = group.done; p < work.upto; ++p) {
    Wgmma& product = group.products[p];
    check_factor(product, first);
    compute(group, block, product);
    std::vector<float>().swap(product.left);
    Accumulator& accumulator = group.accumulators[product.accumulator];
    if (--accumulator.open) continue;
    for (unsigned t = 0; t < kWarpgroup; ++t) {
      current = first + t;
      check_held(accumulator, t);
      for (unsigned e = 0; e < product.n / 2; ++e) accumulator.held[t][e] = accumulator.at(t, e);
      first[t].is_wgmma_fenced = false;
    }
  }
  group.done = work.upto;
  group.waiting = 0;
  for (unsigned t = 0; t < kWarpgroup; ++t) set_ready(first[t]);
}

// An access of the running fiber to its own stack: is it to an accumulator that is not its own for now?
inline void check_accumulators(const void* address, bool is_write, uint64_t code) {
  if (!current->products) return;
  Warpgroup& group = block_of(*current).warpgroups[current->number / kWarpgroup];
  for (const Accumulator& accumulator : group.accumulators) {
    if (!accumulator.open) continue;
    const float* held = accumulator.held[current->number % kWarpgroup];
    if (!held || address < held || address >= held + accumulator.n / 2) continue;
    fault.code = code;
    fault.is_write = is_write;
    name_other(*current, accumulator.code);
    leave(TINYIR_ACCUMULATOR);
  }
}

}  // namespace tinyir_sim
