#include "backend/sparse_gemm_cpu.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <type_traits>
#include <utility>
#include <vector>

#include "backend/block_sums_cpu.h"
#include "backend/density_cpu.h"
#include "backend/gemm_cache.h"
#include "backend/gemm_work_cpu.h"
#include "backend/pack_cpu.h"
#include "backend/packed_layout_cpu.h"
#include "backend/simd_cpu.h"
#include "backend/sparse_lists_cpu.h"
#include "backend/split.h"
#include "backend/strip_gemm_cpu.h"
#include "backend/transpose_cpu.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

// A row of the sparse factor becomes lists of its elements that are not zero, and a row of the product the
// sum of their multiples of rows of the other factor. x + 0 * y is x but for the sign of a zero: only a sum
// that ends as -0, of products too small for f32, is computed again with all its terms.
namespace ventris {
namespace {

/// Multiply-adds below which a product is too small to look for zeros.
constexpr int64_t kLeast = int64_t{1} << 21;

/// Sums of a row in registers: as many as it takes to wait for none of them.
constexpr int kGroupVectors = 8;
constexpr int kGroupPanels = kGroupVectors / kPanelVectors;
constexpr int64_t kGroup = kGroupPanels * kPackedPanel;

constexpr int64_t kRows = 192;  // of a task, at most
/// The part of the second factor that is packed at a time.
constexpr int64_t kDepth = 2048;
constexpr int64_t kColumns = 512;
/// The depth of a product in bf16, which does not hold a part of a sum, so that all of it is listed at a
/// time.
constexpr int64_t kDeepestBF16 = 4096;

int64_t level1_bytes() {
  constexpr int64_t kUnknown = int64_t{32} << 10;
#if defined(_SC_LEVEL1_DCACHE_SIZE)
  static const int64_t bytes = sysconf(_SC_LEVEL1_DCACHE_SIZE);
  if (bytes > 0) return bytes;
#endif
  return kUnknown;
}

/// Depth of the lists of a factor with this share of others than zero. Every row of a task is multiplied with
/// the same part of a group, which stays in the nearest cache beside sums and lists if it is short. Lists of
/// few elements are longer, as sums are read and written once for each.
int64_t list_steps(double density) {
  constexpr double kElements = 12.0;
  const int64_t near = level1_bytes() * 3 / 4 / (kGroup * static_cast<int64_t>(sizeof(float)));
  const double few = kElements / std::max(density, kElements / static_cast<double>(kMostListSteps));
  const int64_t steps = std::max(near, static_cast<int64_t>(few));
  return std::clamp(steps / kLookedAt * kLookedAt, kLookedAt, kMostListSteps);
}

/// Whether it takes less time to leave out the zeros of a factor with this share of others. In cycles for
/// each of its elements, measured (docs/results.md): to look at it, its part of the reading and writing of
/// sums, and a multiple of a row, whose vectors come from the cache, against two multiply-adds a cycle.
bool is_faster(double density, int64_t columns) {
  constexpr double kLook = 1.5;
  constexpr double kOfSums = 0.12;
  constexpr double kMultiple = kVectorBytes == 64 ? 7.0 : 6.0;
  constexpr double kOfPeak = 0.9;
  const int64_t groups = (columns + kGroup - 1) / kGroup;
  const int64_t vectors = (columns + kPackedPanel - 1) / kPackedPanel * kPanelVectors;
  return kLook + static_cast<double>(groups) * (kOfSums + density * kMultiple) <
         static_cast<double>(vectors) / 2 / kOfPeak;
}

template <typename Body>
[[gnu::always_inline]] inline void each_vector(Body&& body) {
#pragma GCC unroll 8
  for (int v = 0; v < kGroupVectors; ++v) body(v);
}

/// Vector v of a row of a group of panels, which are `panel_size` elements apart.
[[gnu::always_inline]] inline Sum row_vector(const float* row, int64_t panel_size, int v) {
  return load_vector(row + v / kPanelVectors * panel_size + v % kPanelVectors * kLanes<float>);
}

bool has_negative_zero(const Sum (&sum)[kGroupVectors]) {
  using Bits = VectorOf<float>::index;
  Bits least = std::bit_cast<Bits>(sum[0]);
  each_vector([&](int v) {
    const Bits bits = std::bit_cast<Bits>(sum[v]);
    least = bits < least ? bits : least;
  });
  const Bits found = least == INT32_MIN;
#if defined(__AVX512F__)
  return _mm512_movepi32_mask(std::bit_cast<__m512i>(found)) != 0;
#elif defined(__AVX2__)
  return _mm256_movemask_ps(std::bit_cast<__m256>(found)) != 0;
#else
  for (int l = 0; l < kLanes<float>; ++l) {
    if (found[l] != 0) return true;
  }
  return false;
#endif
}

/// c (+)= op(a) op(b), or the same of c^T; a is sparse.
struct Product {
  ConstTensor a;
  bool transpose_a;
  ConstTensor b;
  bool transpose_b;
  Tensor c;
  bool turned;  // c is the transposed product, in f32
  ConstTensor bias;
  bool relu;
  bool accumulate;

  int64_t rows() const { return turned ? c.cols : c.rows; }
  int64_t columns() const { return turned ? c.rows : c.cols; }
  int64_t depth() const { return transpose_a ? a.rows : a.cols; }
};

/// What a thread needs for the rows of a task.
struct Memory {
  SparseLists lists;
  float* sums;  // of the rows of a task and a group, if they cannot be in c
};

/// Some columns and some of the depth of a product.
struct Part {
  int64_t column;
  int64_t columns;
  int64_t first;  // of the depth
  int64_t depth;
  const float* packed;  // op(b) of the part
  int64_t list_steps;
  bool last;  // of the depth

  int64_t panel_size() const { return packed_panel_size<float>(depth); }
  int64_t lists() const { return (depth + list_steps - 1) / list_steps; }
  int64_t steps(int64_t list) const { return std::min(list_steps, depth - list * list_steps); }
};

/// Rows [row, row + rows) of a part of a product.
template <typename T, typename C>
class Task {
 public:
  Task(const Product& product, const Part& part, Memory& memory, int64_t row, int64_t rows)
      : product_(product), part_(part), memory_(memory), row_(row), rows_(rows) {}

  void run() {
    const ConstTensor& a = product_.a;
    const bool turned = product_.transpose_a;
    memory_.lists.template fill<T>(turned ? a.row_range(part_.first, part_.depth).col_range(row_, rows_)
                                          : a.row_range(row_, rows_).col_range(part_.first, part_.depth),
                                   turned);
    for (int64_t column = 0; column < part_.columns; column += kGroup) {
      column_ = column;
      columns_ = std::min(kGroup, part_.columns - column);
      packed_ = part_.packed + column / kPackedPanel * part_.panel_size();
      in_c_ = std::is_same_v<C, float> && !product_.turned && columns_ == kGroup;
      sums_ = in_c_ ? static_cast<float*>(static_cast<void*>(c_at(0))) : memory_.sums;
      stride_ = in_c_ ? product_.c.stride : kGroup;
      multiply_group();
    }
  }

 private:
  void multiply_group() {
    const bool adds = product_.accumulate || part_.first > 0;
    if (!in_c_ && adds) read_c();
    for (int64_t list = 0; list < part_.lists(); ++list) {
      const bool from_zero = list == 0 && !adds;
      for (int64_t r = 0; r < rows_; ++r) {
        if (!add(list, memory_.lists.of(list, r), from_zero, sums_ + r * stride_))
          add_all(list, r, from_zero);
      }
    }
    if (part_.last) add_bias();
    if (!in_c_) write_c();
  }

  /// Adds the products with the elements of a list to the sums of a row, or does nothing and returns false if
  /// one of the sums would be -0.
  bool add(int64_t list, const SparseList& elements, bool from_zero, float* to) const {
    const char* panel[kGroupPanels];
    for (int p = 0; p < kGroupPanels; ++p) {
      panel[p] = reinterpret_cast<const char*>(packed_ + list * part_.list_steps * kPackedPanel +
                                               p * part_.panel_size());
    }
    Sum sum[kGroupVectors];
    each_vector([&](int v) { sum[v] = from_zero ? Sum{} : load_vector(to + v * kLanes<float>); });
    for (int64_t i = 0; i < elements.count; ++i) {
      const int64_t offset = elements.offsets[i];
      const Sum factor = in_all_lanes(elements.values[i]);
      each_vector([&](int v) {
        const auto* row = reinterpret_cast<const float*>(panel[v / kPanelVectors] + offset);
        sum[v] = fused(factor, load_vector(row + v % kPanelVectors * kLanes<float>), sum[v]);
      });
    }
    if (has_negative_zero(sum)) return false;
    each_vector([&](int v) { store_vector(to + v * kLanes<float>, sum[v]); });
    return true;
  }

  /// add() with the zeros.
  [[gnu::noinline]] void add_all(int64_t list, int64_t r, bool from_zero) const {
    const float* row = packed_ + list * part_.list_steps * kPackedPanel;
    float* const to = sums_ + r * stride_;
    Sum sum[kGroupVectors];
    each_vector([&](int v) { sum[v] = from_zero ? Sum{} : load_vector(to + v * kLanes<float>); });
    for (int64_t k = 0; k < part_.steps(list); ++k, row += kPackedPanel) {
      const int64_t at = part_.first + list * part_.list_steps + k;
      const ConstTensor& a = product_.a;
      const Sum factor =
          in_all_lanes(load(product_.transpose_a ? a.row<T>(at)[row_ + r] : a.row<T>(row_ + r)[at]));
      each_vector([&](int v) { sum[v] = fused(factor, row_vector(row, part_.panel_size(), v), sum[v]); });
    }
    each_vector([&](int v) { store_vector(to + v * kLanes<float>, sum[v]); });
  }

  /// The element of c for row r of the task and the first column of the group.
  C* c_at(int64_t r) const {
    const int64_t column = part_.column + column_;
    return product_.turned ? product_.c.row<C>(column) + row_ + r : product_.c.row<C>(row_ + r) + column;
  }

  void read_c() const {
    if constexpr (std::is_same_v<C, float>) {
      if (product_.turned) return transpose(c_at(0), product_.c.stride, sums_, stride_, rows_, columns_);
    }
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t i = 0; i < columns_; ++i) sums_[r * stride_ + i] = load(c_at(r)[i]);
    }
  }

  void write_c() const {
    if constexpr (std::is_same_v<C, float>) {
      if (product_.turned) return transpose(sums_, stride_, c_at(0), product_.c.stride, columns_, rows_);
    }
    for (int64_t r = 0; r < rows_; ++r) {
      C* const c = c_at(r);
      for (int64_t i = 0; i < columns_; ++i) store(c[i], sums_[r * stride_ + i]);
    }
  }

  void add_bias() const {
    if (!product_.bias && !product_.relu) return;
    const float* const bias = product_.bias ? product_.bias.as<float>() + part_.column + column_ : nullptr;
    for (int64_t r = 0; r < rows_; ++r) {
      float* const sum = sums_ + r * stride_;
      for (int64_t i = 0; i < columns_ && bias != nullptr; ++i) sum[i] += bias[i];
      for (int64_t i = 0; i < columns_ && product_.relu; ++i) sum[i] = sum[i] < 0.0F ? 0.0F : sum[i];
    }
  }

  const Product& product_;
  const Part& part_;
  Memory& memory_;
  int64_t row_;
  int64_t rows_;
  // Of the group:
  int64_t column_ = 0;  // of the part
  int64_t columns_ = 0;
  const float* packed_ = nullptr;
  bool in_c_ = false;  // sums are read from c and written to it
  float* sums_ = nullptr;
  int64_t stride_ = 0;
};

template <typename T>
bool is_finite(Context& context, const ConstTensor& x) {
  constexpr int64_t kTaskRows = 64;
  std::atomic<bool> finite = true;
  context.pool().for_ranges(x.rows, kTaskRows, [&](int64_t begin, int64_t end, int) {
    int32_t others = 0;
    for (int64_t r = begin; r < end; ++r) {
      const T* const row = x.row<T>(r);
#pragma omp simd reduction(| : others)
      for (int64_t c = 0; c < x.cols; ++c) {
        constexpr int32_t kExponent = 0x7F800000;
        others |= (std::bit_cast<int32_t>(static_cast<float>(load(row[c]))) & kExponent) == kExponent ? 1 : 0;
      }
    }
    if (others != 0) finite.store(false, std::memory_order_relaxed);
  });
  return finite;
}

/// The work memory of a product; only measures if `base` is null.
class Workspace {
 public:
  Workspace(char* base, const Product& product, int64_t task_rows, int64_t steps, int threads)
      : list_steps(steps),
        columns(std::min(product.columns(), kColumns)),
        depth(product.c.dtype == DType::kF32 ? std::min(product.depth(), kDepth) : product.depth()) {
    Pieces pieces(base);
    packed =
        pieces.take<float>((columns + kGroup - 1) / kGroup * kGroupPanels * packed_panel_size<float>(depth));
    const int64_t lists = (depth + list_steps - 1) / list_steps;
    for (int thread = 0; thread < threads; ++thread) {
      auto* const values = pieces.take<float>(task_rows * depth + kLookedAt);
      auto* const offsets = pieces.take<uint16_t>(task_rows * depth + kLookedAt);
      auto* const begin = pieces.take<int32_t>(lists * task_rows + 1);
      auto* const sums = pieces.take<float>(task_rows * kGroup);
      if (base != nullptr) memory.push_back({SparseLists(list_steps, values, offsets, begin), sums});
    }
    bytes = pieces.used();
  }

  int64_t list_steps;
  int64_t columns;  // of a part
  int64_t depth;
  float* packed = nullptr;  // op(b) of a part
  std::vector<Memory> memory;
  int64_t bytes = 0;
};

template <typename T>
class SparseGemm {
 public:
  SparseGemm(Context& context, const Product& product, const Split& rows, Workspace& work)
      : context_(context), product_(product), rows_(rows), work_(work) {}

  void run() const {
    for (int64_t column = 0; column < product_.columns(); column += work_.columns) {
      for (int64_t first = 0; first == 0 || first < product_.depth(); first += work_.depth) {
        const int64_t depth = std::min(work_.depth, product_.depth() - first);
        const Part part{.column = column,
                        .columns = std::min(work_.columns, product_.columns() - column),
                        .first = first,
                        .depth = depth,
                        .packed = work_.packed,
                        .list_steps = work_.list_steps,
                        .last = first + depth == product_.depth()};
        pack(part);
        product_.c.dtype == DType::kF32 ? multiply<float>(part) : multiply<T>(part);
      }
    }
  }

 private:
  void pack(const Part& part) const {
    // The sums of columns that do not exist are of zeros.
    const int64_t groups = (part.columns + kGroup - 1) / kGroup;
    if (part.columns % kGroup != 0) {
      std::fill_n(work_.packed + (groups - 1) * kGroupPanels * part.panel_size(),
                  kGroupPanels * part.panel_size(), 0.0F);
    }
    const ConstTensor& b = product_.b;
    const ConstTensor source = product_.transpose_b
                                   ? b.row_range(part.column, part.columns).col_range(part.first, part.depth)
                                   : b.row_range(part.first, part.depth).col_range(part.column, part.columns);
    pack_cpu(context_, {.source = source,
                        .transpose = product_.transpose_b,
                        .to = {work_.packed, part.depth, part.columns, Packing::kF32}});
  }

  template <typename C>
  void multiply(const Part& part) const {
    context_.pool().for_each(rows_.count, [&](int64_t index, int thread) {
      Memory& memory = work_.memory[static_cast<size_t>(thread)];
      std::fill_n(memory.sums, rows_.length(index) * kGroup, 0.0F);
      Task<T, C>(product_, part, memory, rows_.begin(index), rows_.length(index)).run();
    });
  }

  Context& context_;
  const Product& product_;
  const Split& rows_;
  Workspace& work_;
};

template <typename T>
bool multiply_all(Context& context, const GemmArgs& args) {
  Product product{.a = args.a,
                  .transpose_a = args.transpose_a,
                  .b = args.b,
                  .transpose_b = args.transpose_b,
                  .c = args.c,
                  .turned = false,
                  .bias = args.bias,
                  .relu = args.relu,
                  .accumulate = args.accumulate};
  if (product.rows() * product.columns() * product.depth() < kLeast) return false;
  if (args.c.dtype != DType::kF32 && product.depth() > kDeepestBF16) return false;
  double share = density(args.a);
  if (!is_faster(share, product.columns())) {
    if (!is_for_strips(args)) return false;
    share = density(args.b);
    if (!is_faster(share, product.rows())) return false;
    std::swap(product.a, product.b);
    product.transpose_a = true;
    product.transpose_b = false;
    product.turned = true;
  }
  if (!is_finite<T>(context, product.b)) return false;
  const int threads = context.pool().threads();
  const int64_t m = product.rows();
  const Split rows{m, kLookedAt,
                   std::max((m + kRows - 1) / kRows, std::min<int64_t>(threads, m / kLookedAt))};
  int64_t task_rows = 0;
  for (int64_t i = 0; i < rows.count; ++i) task_rows = std::max(task_rows, rows.length(i));
  const int64_t steps = list_steps(share);
  const auto bytes = static_cast<size_t>(Workspace(nullptr, product, task_rows, steps, threads).bytes);
  Workspace work(static_cast<char*>(context.gemm_cache().padding(bytes)), product, task_rows, steps, threads);
  SparseGemm<T>(context, product, rows, work).run();
  return true;
}

}  // namespace

bool sparse_gemm_cpu(Context& context, const GemmArgs& args) {
  return args.a.dtype == DType::kF32 ? multiply_all<float>(context, args) : multiply_all<BF16>(context, args);
}

}  // namespace ventris
