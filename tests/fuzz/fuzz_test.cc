// SPDX-License-Identifier: Apache-2.0
// Every harness over its seeds and over changed seeds, the same ones in every run. tests/fuzz/README.md tells
// how to fuzz.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <ostream>
#include <random>
#include <stdexcept>

#include "tests/fuzz/digests.h"
#include "tests/fuzz/harness.h"
#include "tests/fuzz/memory_limit.h"
#include "tests/support/source_dir.h"
#include "tests/trainer/small_model.h"
#include "trainer/checkpoint/weights.h"
#include "trainer/exchange/export.h"
#include "trainer/exchange/import.h"
#include "trainer/exchange/marian_config.h"

namespace ventris::fuzz {

/// For the names that GoogleTest prints.
void PrintTo(const Harness& harness, std::ostream* out) {
  *out << harness.name;
}

namespace {

namespace fs = std::filesystem;

constexpr Harness kHarnesses[] = {
    {"corpus", run_corpus}, {"model", run_model},     {"tokenizer", run_tokenizer},
    {"text", run_text},     {"config", run_config},   {"safetensors", run_safetensors},
    {"npz", run_npz},       {"imports", run_imports}, {"mix", run_mix}};

std::vector<std::string> seeds_of(const std::string& harness) {
  std::vector<fs::path> paths;
  for (const auto& entry :
       fs::directory_iterator(fs::path(testing::source_dir()) / "tests/fuzz/seeds" / harness))
    paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> seeds;
  for (const fs::path& path : paths) {
    std::ifstream file(path, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return seeds;
}

/// A seed with one to four changes: a bit, a byte, a number of eight bytes that is near a limit, a piece cut
/// out, doubled or overwritten by another one, the end cut off.
std::string changed(std::string bytes, std::mt19937_64& random) {
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  for (size_t changes = 1 + below(4); changes > 0 && !bytes.empty(); --changes) {
    const size_t at = below(bytes.size());
    const size_t length = 1 + below(std::min<size_t>(bytes.size() - at, 32));
    switch (below(7)) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 1:
        bytes[at] = static_cast<char>(random());
        break;
      case 2: {
        constexpr uint64_t kNumbers[] = {
            0, 1, 0x7f, 0xff, 0x7fffffff, 0xffffffff, uint64_t{1} << 40, ~uint64_t{0}};
        const uint64_t number = kNumbers[below(std::size(kNumbers))];
        bytes.replace(at, std::min<size_t>(8, bytes.size() - at), reinterpret_cast<const char*>(&number),
                      std::min<size_t>(8, bytes.size() - at));
        break;
      }
      case 3:
        bytes.erase(at, length);
        break;
      case 4:
        bytes.insert(at, bytes.substr(at, length));
        break;
      case 5:
        bytes.replace(at, length, bytes.substr(below(bytes.size()), length));
        break;
      default:
        if (below(4) == 0) bytes.resize(at);
    }
  }
  return bytes;
}

class FuzzTest : public ::testing::TestWithParam<Harness> {};

TEST_P(FuzzTest, SeedsAndChangedSeedsAreReadOrRefused) {
  const std::vector<std::string> seeds = seeds_of(GetParam().name);
  ASSERT_FALSE(seeds.empty());
  for (const std::string& seed : seeds) EXPECT_NO_THROW(run(GetParam(), seed));
  std::mt19937_64 random(1);
  // Each reading of a file of ours starts processes.
  const int changes = seeds.front().starts_with("VENTRIS") ? 60 : 400;
  for (int i = 0; i < changes; ++i) {
    const std::string bytes = changed(seeds[static_cast<size_t>(i) % seeds.size()], random);
    EXPECT_NO_THROW(run(GetParam(), bytes)) << "changed seed " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Parsers, FuzzTest, ::testing::ValuesIn(kHarnesses),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(FuzzHarness, SeedsOfFilesAreReadToTheEnd) {
  for (const std::string& seed : seeds_of("corpus")) EXPECT_NO_THROW(run_corpus(seed));
  for (const std::string& seed : seeds_of("model")) EXPECT_NO_THROW(run_model(seed));
  for (const std::string& seed : seeds_of("tokenizer")) EXPECT_NO_THROW(run_tokenizer(seed));
  for (const std::string& seed : seeds_of("safetensors")) EXPECT_NO_THROW(run_safetensors(seed));
  for (const std::string& seed : seeds_of("npz")) EXPECT_NO_THROW(run_npz(seed));
}

/// Files with right digests that lead elsewhere, round in circles, or promise more than they hold.
TEST(FuzzHarness, ForgedFilesAreRefused) {
  const auto refused = [](const Harness& harness) {
    for (const std::string& seed : seeds_of(std::string("refused_") + harness.name)) {
      const MemoryLimit limit(memory_limit(seed.size()));
      std::string reason;
      try {
        harness.run(seed);
      } catch (const std::runtime_error& error) {
        reason = error.what();
      }
      const char* const kReasons[] = {
          "is a link, which",      "reaches beyond the end of the file",
          "nested more than",      "than a file of",
          "but the file has only", "the HDF5 library cannot read it safely: it ended with"};
      EXPECT_TRUE(std::any_of(std::begin(kReasons), std::end(kReasons), [&](const char* part) {
        return reason.find(part) != std::string::npos;
      })) << reason;
    }
  };
  refused(kHarnesses[0]);
  refused(kHarnesses[1]);
}

TEST(FuzzHarness, RightDigestsStayAndWrongOnesAreMended) {
  const auto mends = [](const char* harness, auto&& mended, size_t place_of_digest) {
    for (const std::string& seed : seeds_of(harness)) {
      EXPECT_TRUE(mended(seed) == seed) << harness;
      std::string damaged = seed;
      ASSERT_LT(place_of_digest, damaged.size());
      damaged[place_of_digest] = static_cast<char>(damaged[place_of_digest] ^ 1);
      EXPECT_TRUE(mended(damaged) == seed) << harness;
    }
  };
  constexpr size_t kUserBlockDigest = 16;
  constexpr size_t kSuperblockChecksum = 512 + 44;
  mends("model", with_right_digests, kUserBlockDigest);
  mends("model", with_right_digests, kSuperblockChecksum);
  mends("corpus", with_right_digests, kSuperblockChecksum);
  for (const std::string& seed : seeds_of("safetensors")) {
    std::string damaged = seed;
    const size_t digest = damaged.find("\"digest\":\"");
    if (digest != std::string::npos) damaged[digest + 10] ^= 1;
    EXPECT_TRUE(with_right_safetensors_digest(damaged) == seed);
  }
  for (const std::string& seed : seeds_of("npz")) {
    std::string damaged = seed;
    const size_t entry = damaged.find("PK\1\2");
    damaged[entry + 16] = static_cast<char>(damaged[entry + 16] ^ 1);
    EXPECT_TRUE(with_right_zip_checksums(seed) == seed);
    EXPECT_TRUE(with_right_zip_checksums(damaged) == seed);
  }
}

/// Input that is large beside the constant in the limit: what takes many times its text cannot hide.
TEST(FuzzHarness, LargeInputTakesNoMoreThanFourTimesItsSize) {
  constexpr size_t kBytes = size_t{4} << 20;
  for (const Harness& harness : kHarnesses) {
    for (const std::string& seed : seeds_of(harness.name)) {
      std::string again;
      again.reserve(kBytes + seed.size());
      while (again.size() < kBytes) again += seed;
      EXPECT_NO_THROW(run(harness, again)) << harness.name;
    }
  }
}

TEST(FuzzHarness, AVocabularyOfMarianTakesLittleMemory) {
  constexpr int32_t kTokens = 1 << 18;
  std::string yaml;
  for (int32_t i = 0; i < kTokens; ++i) yaml += std::to_string(i) + ": " + std::to_string(i) + "\n";
  const MemoryLimit limit(3 * yaml.size());  // besides the text
  const std::vector<int32_t> ids = marian_token_ids(
      yaml, "input", kTokens, [](std::string_view token) { return std::stoi(std::string(token)); });
  EXPECT_EQ(ids.back(), kTokens - 1);
}

using ImportedModel = testing::FolderTest;

TEST_F(ImportedModel, OfAnyFormatTakesNoMoreThanThreeTimesItsSize) {
  TransformerConfig config = testing::small_config();
  config.d_model = 32;
  config.d_ff = 1 << 13;
  config.zero_token = 1;
  config.marian_positions = true;
  config.layer_norm_epsilon = 1e-6F;
  Context& context = testing::cpu_context();
  {
    testing::SmallModel model(config);
    const Tensor zero = model.store.logical_value(*model.store.find("embedding"));
    std::fill_n(zero.row<float>(1), config.d_model, 0.0F);
    save_weights(context, path("w.h5"), config, model.store, testing::small_tokenizer_models(), "");
    const auto loaded = load_model(context, path("w.h5"), DType::kF32);
    export_model(context, *loaded, ExportFormat::kSafetensors, path("w.safetensors"), "");
    export_model(context, *loaded, ExportFormat::kMarian, path("marian"), "");
    export_model(context, *loaded, ExportFormat::kHdf5, path("i8.h5"), "", FilePrecision::kInt8);
    export_model(context, *loaded, ExportFormat::kSafetensors, path("i8.safetensors"), "",
                 FilePrecision::kInt8);
  }
  for (const char* name : {"w.h5", "w.safetensors", "marian/model.npz", "i8.h5", "i8.safetensors"}) {
    const size_t bytes = fs::file_size(path(name));
    // Besides the parameters, which are mapped memory and no more than the file would be in f32; a constant
    // well below the file.
    const MemoryLimit limit(2 * bytes + (size_t{1} << 20));
    EXPECT_EQ(import_model(context, {.input = path(name)})->config.d_ff, config.d_ff) << name;
  }
}

TEST(FuzzHarnessDeathTest, MemoryBeyondTheLimitEndsTheProgram) {
  EXPECT_DEATH(
      {
        const MemoryLimit limit(1 << 20);
        std::vector<char> block(1 << 21);
        block[7] = 1;
        std::fprintf(stderr, "%d\n", block[7]);
      },
      "bytes more than allowed");
}

}  // namespace
}  // namespace ventris::fuzz
