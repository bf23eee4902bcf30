// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/gemm_onednn.h"

#include <omp.h>
#include <dnnl.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>
#include <unordered_map>
#include <vector>

#include "backend/cpu/gemm.h"
#include "backend/device/arena.h"
#include "backend/device/error.h"
#include "backend/device/instruction_set.h"
#include "backend/device/memory_room.h"
#include "backend/device/split.h"

// The only file that uses oneDNN. It compiles with oneDNN 2 and 3.

namespace ventris {
namespace {

using dnnl::memory;

// oneDNN writes its code through a null pointer if the system gives it no page. With 16 MiB it still did, as
// other threads reserve their own heaps at the same time.
constexpr size_t kRoomForPrimitive = size_t{64} << 20;

const char* name_of(dnnl::cpu_isa isa) {
  switch (isa) {
    case dnnl::cpu_isa::sse41:
      return "SSE4.1";
    case dnnl::cpu_isa::avx:
      return "AVX";
    case dnnl::cpu_isa::avx2:
      return "AVX2";
    case dnnl::cpu_isa::avx2_vnni:
      return "AVX2, VNNI";
    case dnnl::cpu_isa::avx512_core:
      return "AVX-512";
    case dnnl::cpu_isa::avx512_core_vnni:
      return "AVX-512, VNNI";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "AVX-512, bf16";
    case dnnl::cpu_isa::avx512_core_amx:
      return "AVX-512, AMX (bf16 and int8 tiles)";
    default:
      return "no further instruction set named";
  }
}

// Limits the library to the instructions of the kernels in use, so that VENTRIS_ISA computes as a smaller
// processor does. Has no effect after the first use of the library: gemm_library() shows the actual set.
void limit_library() {
  [[maybe_unused]] static const bool done = [] {
    for (const char* name : {"DNNL_MAX_CPU_ISA", "ONEDNN_MAX_CPU_ISA"}) {
      if (std::getenv(name) != nullptr) return false;
    }
    const std::string& set = instruction_set();
    if (set == "avx2") dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx2);
    if (set == "avx512") dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx512_core_vnni);
    return true;
  }();
}

memory::data_type type_of(DType dtype) {
  return dtype == DType::kBF16 ? memory::data_type::bf16 : memory::data_type::f32;
}

dnnl::matmul::primitive_desc describe(const dnnl::engine& engine, const GemmShape& s) {
  using Dims = memory::dims;
  const memory::desc a({s.m, s.k}, type_of(s.dtype),
                       s.transpose_a ? Dims{1, s.a_stride} : Dims{s.a_stride, 1});
  const memory::desc b({s.k, s.n}, type_of(s.dtype),
                       s.transpose_b ? Dims{1, s.b_stride} : Dims{s.b_stride, 1});
  const memory::desc c({s.m, s.n}, type_of(s.c_dtype), Dims{s.c_stride, 1});
  const memory::desc bias =
      s.bias ? memory::desc({1, s.n}, memory::data_type::f32, Dims{s.n, 1}) : memory::desc();
  dnnl::post_ops post;
  if (s.accumulate) post.append_sum(1.0F);
#if DNNL_VERSION_MAJOR >= 3
  if (s.relu) post.append_eltwise(dnnl::algorithm::eltwise_relu, 0.0F, 0.0F);
#else
  if (s.relu) post.append_eltwise(1.0F, dnnl::algorithm::eltwise_relu, 0.0F, 0.0F);
#endif
  dnnl::primitive_attr attributes;
  attributes.set_post_ops(post);
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
#if DNNL_VERSION_MAJOR >= 3
  return s.bias ? dnnl::matmul::primitive_desc(engine, a, b, bias, c, attributes)
                : dnnl::matmul::primitive_desc(engine, a, b, c, attributes);
#else
  const auto operation = s.bias ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c);
  return {operation, attributes, engine};
#endif
}

// The memory objects of one thread; their addresses are set before each run.
struct Arguments {
  memory a;
  memory b;
  memory bias;
  memory c;
  memory scratchpad;
  mutable bool has_run = false;
};

struct Primitive {
  dnnl::matmul primitive;
  std::vector<Arguments> arguments;  // by thread
};

}  // namespace

struct GemmCache::Impl {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  std::vector<dnnl::stream> streams;  // by thread
  std::vector<Arena> scratchpads;     // by thread, as large as the largest primitive requires
  Arena padding;
  std::unordered_map<GemmShape, Primitive, GemmShapeHash> primitives;
};

GemmCache::GemmCache(int threads) {
  limit_library();
  impl_ = std::make_unique<Impl>();
  for (int thread = 0; thread < threads; ++thread) {
    impl_->streams.emplace_back(impl_->engine);
    impl_->scratchpads.emplace_back(Device::kCpu, size_t{1} << 20);
  }
}

GemmCache::~GemmCache() = default;

size_t GemmCache::size() const {
  return impl_->primitives.size();
}

bool GemmCache::prepare(const GemmShape& shape) {
  if (const auto found = impl_->primitives.find(shape); found != impl_->primitives.end()) {
    return static_cast<bool>(found->second.primitive);
  }
  require_memory_room(kRoomForPrimitive, "a matrix product of oneDNN");
  omp_set_num_threads(1);  // a primitive for one thread needs scratch for one thread
  Primitive made;
  try {
    const auto description = describe(impl_->engine, shape);
    made.primitive = dnnl::matmul(description);
    const size_t bytes = description.scratchpad_desc().get_size();
    for (size_t thread = 0; thread < impl_->streams.size(); ++thread) {
      if (bytes > impl_->scratchpads[thread].capacity()) {
        impl_->scratchpads[thread] = Arena(Device::kCpu, bytes);
      }
      const dnnl::engine& engine = impl_->engine;
      Arguments arguments{memory(description.src_desc(), engine, nullptr),
                          memory(description.weights_desc(), engine, nullptr),
                          {},
                          memory(description.dst_desc(), engine, nullptr),
                          memory(description.scratchpad_desc(), engine, nullptr)};
      if (shape.bias) arguments.bias = memory(description.bias_desc(), engine, nullptr);
      made.arguments.push_back(std::move(arguments));
    }
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_out_of_memory) throw std::bad_alloc();
    if (error.status != dnnl_unimplemented) {
      fail(ExitCode::kInternal, "oneDNN cannot create a matrix product of {} x {} x {} ({}, result {}): {}",
           shape.m, shape.n, shape.k, name_of(shape.dtype), name_of(shape.c_dtype), error.what());
    }
    made = {};
  }
  const bool usable = static_cast<bool>(made.primitive);
  impl_->primitives.emplace(shape, std::move(made));
  return usable;
}

void GemmCache::run(const GemmShape& shape, int thread, const void* a, const void* b, const void* bias,
                    void* c) const {
  const auto found = impl_->primitives.find(shape);
  VENTRIS_CHECK(found != impl_->primitives.end(), "no primitive of {} x {} x {} was prepared", shape.m,
                shape.n, shape.k);
  const Arguments& arguments = found->second.arguments[static_cast<size_t>(thread)];
  if (!arguments.has_run) {  // oneDNN generates the code that copies operands at its first use
    require_memory_room(kRoomForPrimitive, "a matrix product of oneDNN");
    arguments.has_run = true;
  }
  Arena& scratchpad = impl_->scratchpads[static_cast<size_t>(thread)];
  const size_t mark = scratchpad.used();
  std::array<dnnl_exec_arg_t, 5> list;
  int count = 0;
  const auto add = [&](int name, const memory& where, const void* address) {
    // The library takes all addresses as writable, but writes only to c and to the scratchpad.
    dnnl_memory_set_data_handle(where.get(), const_cast<void*>(address));
    list[static_cast<size_t>(count++)] = {name, where.get()};
  };
  add(DNNL_ARG_SRC, arguments.a, a);
  add(DNNL_ARG_WEIGHTS, arguments.b, b);
  if (shape.bias) add(DNNL_ARG_BIAS, arguments.bias, bias);
  add(DNNL_ARG_DST, arguments.c, c);
  add(DNNL_ARG_SCRATCHPAD, arguments.scratchpad, scratchpad.allocate(1));
  scratchpad.release_to(mark);
  const dnnl_status_t status = dnnl_primitive_execute(
      found->second.primitive.get(), impl_->streams[static_cast<size_t>(thread)].get(), count, list.data());
  if (status == dnnl_out_of_memory) throw std::bad_alloc();
  VENTRIS_CHECK(status == dnnl_success, "oneDNN failed with status {} on {} x {} x {}",
                static_cast<int>(status), shape.m, shape.n, shape.k);
}

bool library_multiplies_bf16() {
  static const bool found = [] {
    limit_library();
    constexpr int64_t kSize = 32;
    try {
      describe(dnnl::engine(dnnl::engine::kind::cpu, 0), {.dtype = DType::kBF16,
                                                          .c_dtype = DType::kF32,
                                                          .m = kSize,
                                                          .n = kSize,
                                                          .k = kSize,
                                                          .a_stride = kSize,
                                                          .b_stride = kSize,
                                                          .c_stride = kSize});
      return true;
    } catch (const dnnl::error& error) {
      if (error.status != dnnl_unimplemented) throw;
      return false;
    }
  }();
  return found;
}

std::string gemm_library() {
  limit_library();
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("oneDNN {}.{}.{}, {}", version->major, version->minor, version->patch,
                     name_of(dnnl::get_effective_cpu_isa()));
}

void* GemmCache::padding(size_t bytes) {
  impl_->padding.release_to(0);
  if (bytes > impl_->padding.capacity()) impl_->padding = Arena(Device::kCpu, bytes);
  return impl_->padding.allocate(bytes);
}

namespace {

// The numbers of tokens (rows of activations) differ from micro-batch to micro-batch, and a primitive serves
// one shape. So the token dimension is cut into blocks whose lengths are multiples of a unit: a few shapes
// serve any length.
constexpr int64_t kUnit = 32;
constexpr int64_t kRowBlock = 512;     // tokens per block of y = x w
constexpr int64_t kDepthBlock = 1024;  // tokens per block of dw += x^T dy
constexpr int64_t kTile = 1024;        // rows and columns of dw per tile

/// In pieces of about `target`, at least `min` of them.
Split split(int64_t total, int64_t target, int64_t unit, int64_t min = 1) {
  return {total, unit, std::max(min, (total + target - 1) / target)};
}

const void* at(const ConstTensor& x, int64_t row, int64_t col) {
  return static_cast<const char*>(x.data) + (row * x.stride + col) * static_cast<int64_t>(size_of(x.dtype));
}

void* at(const Tensor& x, int64_t row, int64_t col) {
  return const_cast<void*>(at(ConstTensor(x), row, col));
}

// A view of one row may have any stride; the library requires a valid one.
int64_t stride_of(const ConstTensor& x) {
  return x.rows == 1 ? std::max(x.stride, x.cols) : x.stride;
}

class Product {
 public:
  Product(Context& context, const GemmArgs& args)
      : context_(context),
        cache_(context.gemm_cache()),
        args_(args),
        k_(args.transpose_a ? args.a.rows : args.a.cols) {}

  /// False if the library has no primitive for one of the blocks; then nothing was computed.
  bool by_rows();
  bool by_depth();

 private:
  GemmShape shape(int64_t m, int64_t n, int64_t k, bool accumulate) const {
    return {.dtype = args_.a.dtype,
            .c_dtype = args_.c.dtype,
            .transpose_a = args_.transpose_a,
            .transpose_b = args_.transpose_b,
            .bias = static_cast<bool>(args_.bias),
            .relu = args_.relu,
            .accumulate = accumulate,
            .m = m,
            .n = n,
            .k = k,
            .a_stride = stride_of(args_.a),
            .b_stride = stride_of(args_.b),
            .c_stride = stride_of(args_.c)};
  }
  const void* a_at(int64_t row, int64_t p) const {
    return args_.transpose_a ? at(args_.a, p, row) : at(args_.a, row, p);
  }
  const void* b_at(int64_t p, int64_t col) const {
    return args_.transpose_b ? at(args_.b, col, p) : at(args_.b, p, col);
  }
  const void* bias_at(int64_t col) const { return args_.bias ? at(args_.bias, 0, col) : nullptr; }

  /// Rows [begin, begin + m) of columns [col, col + n), over all of k.
  void run(const GemmShape& shape, int thread, int64_t row, int64_t col) const {
    cache_.run(shape, thread, a_at(row, 0), b_at(0, col), bias_at(col), at(args_.c, row, col));
  }
  ConstTensor padded_rows(const ConstTensor& x, int64_t begin, void* address) const;

  Context& context_;
  GemmCache& cache_;
  const GemmArgs& args_;
  int64_t k_;
};

// Forward products and gradients of activations: the rows of c are tokens. The last block is shifted to end
// at the last row, and recomputes some rows of the previous block: the same bits, by the same thread. With
// accumulation, which would count them twice, the rows after the last whole unit are processed in pieces of
// 16, 8, 4, 2 and 1.
bool Product::by_rows() {
  const int64_t m = args_.c.rows;
  const int64_t unit = std::min(kUnit, static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(m))));
  const int64_t rest = m % unit;
  const bool again = rest != 0 && !args_.accumulate;
  const Split rows = split(again ? m : m - rest, kRowBlock, unit, again ? 2 : 1);
  // The last two blocks are one task if they share rows; few tasks by rows are split further by columns.
  const int64_t row_tasks = again ? rows.count - 1 : rows.count;
  const Split cols = split(args_.c.cols, row_tasks < 3 ? 256 : kTile, 64);

  for (int64_t j = 0; j < cols.count; ++j) {
    for (int64_t i = 0; i < rows.count; ++i) {
      const GemmShape block = shape(rows.whole_length(i), cols.length(j), k_, args_.accumulate);
      if (!cache_.prepare(block)) return false;
    }
    for (int64_t piece = unit / 2; piece > 0 && args_.accumulate; piece /= 2) {
      if ((rest & piece) != 0 && !cache_.prepare(shape(piece, cols.length(j), k_, true))) return false;
    }
  }
  context_.pool().for_each(row_tasks * cols.count, [&](int64_t index, int thread) {
    // From the end, so that the task with two blocks comes first.
    const int64_t task = row_tasks - 1 - index / cols.count;
    const int64_t j = index % cols.count;
    const bool last = task == row_tasks - 1;
    for (int64_t i = task; i < (last ? rows.count : task + 1); ++i) {
      const int64_t height = rows.whole_length(i);
      run(shape(height, cols.length(j), k_, args_.accumulate), thread,
          std::min(rows.begin(i), rows.total - height), cols.begin(j));
    }
    if (!last || !args_.accumulate) return;
    int64_t row = m - rest;
    for (int64_t piece = unit / 2; piece > 0; piece /= 2) {
      if ((rest & piece) == 0) continue;
      run(shape(piece, cols.length(j), k_, true), thread, row, cols.begin(j));
      row += piece;
    }
  });
  return true;
}

// Rows [begin, x.rows) of x, followed by zeros up to a whole unit.
ConstTensor Product::padded_rows(const ConstTensor& x, int64_t begin, void* address) const {
  const Tensor padded{address, kUnit, x.cols, x.cols, x.dtype};
  const size_t bytes = static_cast<size_t>(x.cols) * size_of(x.dtype);
  for (int64_t row = 0; row < kUnit; ++row) {
    if (begin + row < x.rows) {
      std::memcpy(at(padded, row, 0), at(x, begin + row, 0), bytes);
    } else {
      std::memset(at(padded, row, 0), 0, bytes);
    }
  }
  return padded;
}

// Gradients of weights: the sum runs over tokens. The tokens after the last whole unit are copied and padded
// with zeros, which add nothing. Each tile of c adds its blocks in order.
bool Product::by_depth() {
  const int64_t rest = k_ % kUnit;
  const Split depth = split(k_ - rest, kDepthBlock, kUnit);
  const int64_t blocks = k_ >= kUnit ? depth.count : 0;
  const Split rows = split(args_.c.rows, kTile, 64);
  const Split cols = split(args_.c.cols, kTile, 64);
  GemmArgs tail = args_;
  if (rest != 0) {
    const int64_t a_bytes = kUnit * args_.a.cols * static_cast<int64_t>(size_of(args_.a.dtype));
    const int64_t b_bytes = kUnit * args_.b.cols * static_cast<int64_t>(size_of(args_.b.dtype));
    char* memory = static_cast<char*>(cache_.padding(static_cast<size_t>(a_bytes + b_bytes)));
    tail.a = padded_rows(args_.a, k_ - rest, memory);
    tail.b = padded_rows(args_.b, k_ - rest, memory + a_bytes);
  }
  const Product tail_product(context_, tail);
  const auto accumulates = [&](int64_t block) { return args_.accumulate || block > 0; };
  for (int64_t i = 0; i < rows.count; ++i) {
    for (int64_t j = 0; j < cols.count; ++j) {
      const int64_t m = rows.length(i);
      const int64_t n = cols.length(j);
      for (int64_t block = 0; block < blocks; ++block) {
        if (!cache_.prepare(shape(m, n, depth.length(block), accumulates(block)))) return false;
      }
      if (rest != 0 && !cache_.prepare(tail_product.shape(m, n, kUnit, accumulates(blocks)))) return false;
    }
  }
  context_.pool().for_each(rows.count * cols.count, [&](int64_t index, int thread) {
    const int64_t i = index / cols.count;
    const int64_t j = index % cols.count;
    const int64_t m = rows.length(i);
    const int64_t n = cols.length(j);
    void* c = at(args_.c, rows.begin(i), cols.begin(j));
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t p = depth.begin(block);
      cache_.run(shape(m, n, depth.length(block), accumulates(block)), thread, a_at(rows.begin(i), p),
                 b_at(p, cols.begin(j)), nullptr, c);
    }
    if (rest == 0) return;
    cache_.run(tail_product.shape(m, n, kUnit, accumulates(blocks)), thread,
               tail_product.a_at(rows.begin(i), 0), tail_product.b_at(0, cols.begin(j)), nullptr, c);
  });
  return true;
}

}  // namespace

bool onednn_gemm(Context& context, const GemmArgs& args) {
  // Splitting the sum needs a result that holds partial sums exactly, and an operand whose padding is zero.
  const bool cut_depth =
      args.transpose_a && !args.transpose_b && args.c.dtype == DType::kF32 && !args.bias && !args.relu;
  Product product(context, args);
  return cut_depth ? product.by_depth() : product.by_rows();
}

}  // namespace ventris
