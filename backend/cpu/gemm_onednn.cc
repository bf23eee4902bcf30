// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/gemm_onednn.h"

#include <omp.h>
#include <dnnl.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <new>
#include <unordered_map>
#include <vector>

#include "backend/device/arena.h"
#include "backend/device/error.h"
#include "backend/device/instruction_set.h"
#include "backend/device/memory_room.h"

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

}  // namespace ventris
