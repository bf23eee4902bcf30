#include "launch/version.h"

#include <fmt/format.h>

#include <oneapi/dnnl/dnnl.hpp>

#if VENTRIS_HAS_MPI
#include <mpi.h>
#endif

namespace ventris {

namespace {

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

std::string mpi_library() {
#if VENTRIS_HAS_MPI
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  if (MPI_Get_library_version(text, &length) != MPI_SUCCESS) return "unknown MPI library";
  std::string line(text, static_cast<size_t>(length));
  return line.substr(0, line.find_first_of(",\n"));
#else
  return "no (built with VENTRIS_MPI=OFF; one process only)";
#endif
}

}  // namespace

std::string program_name_and_version() {
  return fmt::format("ventris {} (commit {})", VENTRIS_VERSION, VENTRIS_COMMIT);
}

std::string version_text() {
  const dnnl_version_t* dnnl = dnnl_version();
  return fmt::format(
      "{}\n"
      "CPU:  yes, f32 and bf16, oneDNN {}.{}.{}, {}\n"
      "MPI:  {}\n"
      "CUDA: no\n",
      program_name_and_version(), dnnl->major, dnnl->minor, dnnl->patch,
      name_of(dnnl::get_effective_cpu_isa()), mpi_library());
}

}  // namespace ventris
