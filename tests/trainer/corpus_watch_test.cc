// SPDX-License-Identifier: Apache-2.0
#include "trainer/corpus_watch.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "backend/error.h"
#include "data/corpus.h"
#include "data/error.h"
#include "data/files/hdf5_reader.h"
#include "data/files/hdf5_writer.h"
#include "tests/trainer/training_fixture.h"
#include "trainer/files/run_folder.h"
#include "trainer/training_run.h"

namespace ventris {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;
using testing::tiny_corpus;
using testing::tiny_run_options;
using testing::train_alone;

struct Change {
  const char* name;
  const char* told;
  void (*make)(const std::string& corpus);
};

/// Of those that a run reads: all of the small corpus.
int64_t place_of_tokens(const std::string& corpus) {
  return data::Hdf5Reader(corpus).file_offset("/train/tokens");
}

const Change kChanges[] = {
    {"appended", "bytes and now has",
     [](const std::string& corpus) { std::ofstream(corpus, std::ios::app | std::ios::binary) << 'x'; }},
    {"cut", "bytes and now has",
     [](const std::string& corpus) { fs::resize_file(corpus, fs::file_size(corpus) - 1); }},
    {"overwritten", "its modification time changed",
     [](const std::string& corpus) {
       std::fstream file(corpus, std::ios::in | std::ios::out | std::ios::binary);
       file.seekp(2000);
       file.put('\x5a');
       file.close();
       fs::last_write_time(corpus, fs::last_write_time(corpus) + std::chrono::seconds(1));
     }},
    {"overwritten and given its time", "its bytes are different",
     [](const std::string& corpus) {
       const fs::file_time_type time = fs::last_write_time(corpus);
       std::fstream file(corpus, std::ios::in | std::ios::out | std::ios::binary);
       file.seekp(place_of_tokens(corpus));
       file.put('\x5a');
       file.close();
       fs::last_write_time(corpus, time);
     }},
    {"replaced", "another file has its name",
     [](const std::string& corpus) {
       fs::copy_file(corpus, corpus + ".new");
       fs::last_write_time(corpus + ".new", fs::last_write_time(corpus));
       fs::rename(corpus + ".new", corpus);
     }},
    {"removed", "it no longer exists", [](const std::string& corpus) { fs::remove(corpus); }}};

TEST(CorpusWatch, EndsARunBeforeASaveAndTheCheckpointOfBeforeGoesOn) {
  const TemporaryFolder folder;
  const std::string quiet = train_alone(tiny_run_options(tiny_corpus(), folder / "quiet")).last_checkpoint;
  for (const Change& change : kChanges) {
    SCOPED_TRACE(change.name);
    TrainOptions options =
        tiny_run_options(folder / change.name, folder / (change.name + std::string("-run")));
    options.log_every = 100;
    fs::copy_file(tiny_corpus(), options.corpus);
    const std::string first = path_of_checkpoint(options.model_dir, 2);
    {
      Context context({.threads = 1});
      const auto self = make_self_communicator();
      TrainingRun run(context, *self, options, "ventris train (test)", nullptr);
      const auto step = [&] {
        const data::GlobalBatch batch = run.begin_step();
        run.compute_step(batch);
        run.complete_step(batch);
      };
      step();
      step();
      run.save();
      step();
      ASSERT_TRUE(run.settle());
      // The mapping of a file that got shorter is still whole: it ends in the same page.
      change.make(options.corpus);
      for (const bool at_the_end : {false, true}) {
        try {
          at_the_end ? static_cast<void>(run.finish()) : run.save();
          ADD_FAILURE() << "nothing was thrown";
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ExitCode::kBadData) << error.what();
          for (const std::string& part : {options.corpus, std::string(change.told)}) {
            EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
          }
        }
      }
    }
    EXPECT_EQ(list_checkpoints(options.model_dir), std::vector<std::string>{first});
    fs::copy_file(tiny_corpus(), options.corpus, fs::copy_options::overwrite_existing);
    const std::string last = train_alone(options).last_checkpoint;
    const testing::LoadedState expected(quiet, options.model, testing::kTinyVocabulary);
    const testing::LoadedState found(last, options.model, testing::kTinyVocabulary);
    EXPECT_TRUE(found.values == expected.values);
    EXPECT_TRUE(found.v == expected.v);
  }
}

TEST(CorpusWatch, AModeOrALinkIsNoChange) {
  const TemporaryFolder folder;
  const std::string corpus = folder / "corpus.h5";
  fs::copy_file(tiny_corpus(), corpus);
  const CorpusWatch watch(corpus);
  fs::permissions(corpus, fs::perms::owner_read);
  watch.check();
  fs::create_hard_link(corpus, folder / "link.h5");
  watch.check();
}

TEST(CorpusWatch, OfAnOpenCorpusOnlyWhatWasReadIsComparedAfterAChangeOfItsStatus) {
  const TemporaryFolder folder;
  const std::string path = folder / "corpus.h5";
  fs::copy_file(tiny_corpus(), path);
  const int64_t tokens = place_of_tokens(path);
  const CorpusWatch watch(path);
  const data::Corpus corpus(path);
  const auto flip = [&](int64_t at) {
    // The clock of file times may take some milliseconds to the next one.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const fs::file_time_type time = fs::last_write_time(path);
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(at);
    const char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(at);
    file.put(byte);
    file.close();
    fs::last_write_time(path, time);
  };
  flip(tokens);
  watch.check(corpus);  // nothing was read there yet
  EXPECT_THROW(static_cast<void>(corpus.train().source[0]), data::DataError);
  flip(tokens);
  EXPECT_FALSE(corpus.train().source[0].empty());
  watch.check(corpus);
  flip(tokens);
  EXPECT_THROW(watch.check(corpus), Error);
}

}  // namespace
}  // namespace ventris
