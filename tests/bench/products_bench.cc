// SPDX-License-Identifier: Apache-2.0
// Times of matrix products on the CPU or on a GPU (there between events of the stream):
//   products_bench cpu|cuda FILE
// FILE has a line "m n k form" for each product [m, k] [k, n] of bf16; form is nn, nt or tn (t: that factor
// is transposed; tn has a result in f32, as gradients of weights), then + if the product is added to its
// result. Prints a JSON object a line: of a copy of memory, with its bytes, and of each product, the
// milliseconds alone on the device, the least of three rounds.
#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "backend/device/context.h"
#include "backend/device/device.h"
#include "backend/device/profile.h"
#include "backend/device/transfer.h"
#include "backend/ops/add.h"
#include "backend/ops/gemm.h"

namespace ventris {
namespace {

/// [m, k] [k, n]
struct Product {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  std::string form;

  bool read(std::istream& file) { return static_cast<bool>(file >> m >> n >> k >> form); }
  bool valid() const {
    const int64_t most = 1 << 20;
    const bool known = form.substr(0, 2) == "nn" || form.substr(0, 2) == "nt" || form.substr(0, 2) == "tn";
    return std::min({m, n, k}) > 0 && std::max({m, n, k}) <= most && known &&
           (form.size() == 2 || form.substr(2) == "+");
  }
  DType result() const { return form[0] == 't' ? DType::kF32 : DType::kBF16; }
  size_t bytes() const {
    return static_cast<size_t>(m * k + k * n) * size_of(DType::kBF16) +
           static_cast<size_t>(m * n) * size_of(result()) + 3 * 128;
  }
};

/// Measures products in one piece of memory, which is filled with numbers once: a device computes faster with
/// zeros.
class Products {
 public:
  Products(Device device, size_t bytes)
      : context_({.device = device}), bytes_(bytes), memory_(device, bytes, "products") {
    std::minstd_rand generator(1);
    std::vector<BF16> numbers(std::min(bytes, size_t{16} << 20) / sizeof(BF16));
    for (BF16& number : numbers) number = BF16(static_cast<float>(generator()) * 0x1p-30F - 1.0F);
    char* const begin = static_cast<char*>(memory_.allocate(bytes));
    memory_.release_to(0);
    const size_t piece = numbers.size() * sizeof(BF16);
    for (size_t at = 0; at < bytes; at += piece)
      copy_to_device(context_, begin + at, numbers.data(), std::min(piece, bytes - at));
  }

  void multiply(const Product& product) {
    const ArenaScope scope(memory_);
    const bool transpose_a = product.form[0] == 't';
    const bool transpose_b = product.form[1] == 't';
    const auto factor = [&](int64_t rows, int64_t cols, bool transposed) {
      return memory_.allocate(transposed ? cols : rows, transposed ? rows : cols, DType::kBF16);
    };
    GemmArgs args{.a = factor(product.m, product.k, transpose_a),
                  .b = factor(product.k, product.n, transpose_b),
                  .c = memory_.allocate(product.m, product.n, product.result())};
    args.transpose_a = transpose_a;
    args.transpose_b = transpose_b;
    args.accumulate = product.form.size() > 2;
    const double ms = milliseconds([&] { gemm(context_, args); });
    fmt::print("{{\"product\": \"{} {} {} {}\", \"ms\": {}}}\n", product.m, product.n, product.k,
               product.form, ms);
  }
  void copy() {
    const ArenaScope scope(memory_);
    const auto elements = static_cast<int64_t>((bytes_ - 256) / 2 / sizeof(float));
    const Tensor from = memory_.allocate(1, elements, DType::kF32);
    const Tensor to = memory_.allocate(1, elements, DType::kF32);
    const double ms =
        milliseconds([&] { add(context_, {.steps = {{.term = from, .additions = 0, .sum = to}}}); });
    fmt::print("{{\"copied_bytes\": {}, \"ms\": {}}}\n", 2 * sizeof(float) * static_cast<size_t>(elements),
               ms);
  }

 private:
  template <typename Work>
  double milliseconds(const Work& work) {
    constexpr int kCalls = 10;  // so that the host stays ahead of the device
    work();                     // chooses an algorithm
    double least = std::numeric_limits<double>::infinity();
    for (int round = 0; round < 3; ++round) {
      Profile& profile = context_.profile();
      profile.clear();
      profile.begin_step();
      for (int i = 0; i < kCalls; ++i) work();
      profile.end_step();
      least = std::min(least, 1e3 * profile.step_seconds() / kCalls);
    }
    return least;
  }

  Context context_;
  size_t bytes_;
  Arena memory_;
};

}  // namespace
}  // namespace ventris

int main(int argc, char** argv) {
  using namespace ventris;
  const std::string device = argc == 3 ? argv[1] : "";
  if (device != "cpu" && device != "cuda") {
    std::cerr << "usage: products_bench cpu|cuda FILE\n";
    return 64;
  }
  const std::string reason = device == "cuda" ? cuda_unavailable_reason() : "";
  if (!reason.empty()) {
    std::cerr << "skipped: no CUDA device can be used: " << reason << '\n';
    return 77;
  }
  std::ifstream file(argv[2]);
  std::vector<Product> all;
  size_t bytes = size_t{1} << 20;
  for (Product product; product.read(file);) {
    bytes = std::max(bytes, product.valid() ? product.bytes() : 0);
    all.push_back(product);
  }
  const auto valid = [](const Product& product) { return product.valid(); };
  if (!file.eof() || all.empty() || !std::all_of(all.begin(), all.end(), valid)) {
    std::cerr << "error: " << argv[2] << " does not hold lines \"m n k form\" with sizes from 1 to 1048576 "
              << "and forms nn, nt, tn, nn+, nt+ or tn+\n";
    return 65;
  }
  Products products(device == "cuda" ? Device::kCuda : Device::kCpu, bytes);
  products.copy();
  for (const Product& product : all) products.multiply(product);
  return 0;
}
