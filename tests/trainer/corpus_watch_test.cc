// SPDX-License-Identifier: Apache-2.0
#include "trainer/corpus_watch.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "backend/device/error.h"
#include "tests/trainer/training_fixture.h"
#include "trainer/checkpoint/run_folder.h"
#include "trainer/run.h"
#include "trainer/train.h"

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
      const auto run = make_run(context, *self, options, "ventris train (test)", nullptr);
      const auto step = [&] {
        const data::GlobalBatch batch = begin_step(*run);
        compute_step(*run, batch);
        complete_step(*run, batch);
      };
      step();
      step();
      save(*run);
      step();
      ASSERT_TRUE(run->saving.saver->settle());
      // The mapping of a file that got shorter is still whole: it ends in the same page.
      change.make(options.corpus);
      for (const bool at_the_end : {false, true}) {
        try {
          at_the_end ? static_cast<void>(finish(*run)) : save(*run);
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
  fs::create_hard_link(corpus, folder / "link.h5");
  watch.check();
}

}  // namespace
}  // namespace ventris
