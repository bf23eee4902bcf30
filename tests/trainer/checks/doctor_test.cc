// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "trainer/checks/doctor_facts.h"
#include "trainer/checks/doctor_judgement.h"
#include "trainer/checks/doctor_report.h"
#include "trainer/checks/doctor_steps.h"

namespace ventris {
namespace {

constexpr double kGigabit = 1e9 / 8.0;

/// Two hosts with two ranks each that are as they should be.
DoctorFacts fit() {
  DoctorFacts facts;
  facts.device = "auto";
  facts.folder = "/run";
  for (int rank = 0; rank < 4; ++rank) {
    RankFacts own;
    own.host = rank < 2 ? "node1" : "node2";
    own.local_rank = rank % 2;
    own.local_size = 2;
    own.cores = own.core_share = 4;
    own.host_cores = 8;
    own.program = "ventris 1";
    own.mpi = "Open MPI 4";
    own.thread_level = "MPI_THREAD_MULTIPLE";
    own.nccl = "2.28.9";
    own.cuda = "yes";
    own.driver = "580.65.06 for CUDA 13.0";
    own.device = "NVIDIA H200";
    own.identity = "GPU-" + std::to_string(rank);
    own.seen_devices =
        rank < 2 ? std::vector<std::string>{"GPU-0", "GPU-1"} : std::vector<std::string>{"GPU-2", "GPU-3"};
    own.reached_devices = {"GPU-" + std::to_string(rank ^ 1)};
    own.core_files = 0;
    own.shared_memory_free = int64_t{1} << 30;
    own.copy_rate = 1e10;
    own.link_rate = 10.0 * kGigabit;
    own.sees_folder = true;
    own.folder_free = int64_t{1} << 40;
    facts.ranks.push_back(own);
  }
  facts.checkpoint_bytes = int64_t{1} << 30;
  facts.sums = {.error = "", .latency = 1e-5, .bandwidth = 5.0 * kGigabit};
  return facts;
}

/// The first finding of a check, which must have this severity and say `words`.
void expect(const std::vector<Finding>& findings, Severity severity, const std::string& check,
            const std::string& words) {
  const auto found = std::find_if(findings.begin(), findings.end(),
                                  [&](const Finding& finding) { return finding.check == check; });
  ASSERT_NE(found, findings.end()) << "nothing about " << check;
  EXPECT_EQ(found->severity, severity) << found->text;
  EXPECT_NE(found->text.find(words), std::string::npos) << found->text;
  EXPECT_EQ(found->advice.empty(), severity == Severity::kFine) << found->advice;
}

TEST(DoctorTest, A_fit_job_has_fine_findings_only) {
  for (const Finding& finding : judge(fit())) {
    EXPECT_EQ(finding.severity, Severity::kFine) << finding.check << ": " << finding.text;
  }
}

TEST(DoctorTest, The_worst_comes_first) {
  DoctorFacts facts = fit();
  facts.ranks[3].clock_ahead = 60.0;
  facts.ranks[2].program = "ventris 2";
  facts.ranks[0].core_files = -1;
  const std::vector<Finding> findings = judge(facts);
  EXPECT_EQ(findings[0].severity, Severity::kProblem);
  EXPECT_EQ(findings[1].severity, Severity::kWarning);
  EXPECT_EQ(findings[2].severity, Severity::kNote);
  EXPECT_EQ(findings[3].severity, Severity::kFine);
  EXPECT_NE(doctor_page(facts, findings).find("4 ranks: not fit to train"), std::string::npos);
}

TEST(DoctorTest, Programs_that_differ_are_a_problem) {
  DoctorFacts facts = fit();
  facts.ranks[2].program = "ventris 2";
  expect(judge_programs(facts), Severity::kProblem, "program",
         R"(rank 2 on node2 has "ventris 2", rank 0 has "ventris 1")");
  facts = fit();
  facts.ranks[1].mpi = "MPICH";
  expect(judge_programs(facts), Severity::kProblem, "MPI", "rank 1 on node1");
}

TEST(DoctorTest, Hosts_of_one_name_and_uneven_hosts_are_told) {
  DoctorFacts facts = fit();
  for (RankFacts& rank : facts.ranks) rank.host = "localhost";
  expect(judge_hosts(facts), Severity::kProblem, "hosts", "two hosts have the name localhost");
  facts = fit();
  facts.ranks.pop_back();
  expect(judge_hosts(facts), Severity::kWarning, "hosts", "node1 has 2 ranks and node2 has 1");
}

TEST(DoctorTest, Idle_and_shared_cores_are_told) {
  DoctorFacts facts = fit();
  for (RankFacts& rank : facts.ranks) rank.core_share = 1;
  expect(judge_cores(facts), Severity::kWarning, "cores", "may use 1 core each of its 8");
  for (RankFacts& rank : facts.ranks) rank.host_cores = 1;
  expect(judge_cores(facts), Severity::kWarning, "cores", "node1 has 2 ranks and 1 core");
  facts = fit();
  facts.ranks[1].core_share = 3;
  facts.ranks[2].core_share = 5;
  for (RankFacts& rank : facts.ranks) rank.device.clear();
  expect(judge_cores(facts), Severity::kFine, "cores", "3 or more for each rank");
}

TEST(DoctorTest, Few_and_unequal_cores_of_ranks_with_GPUs_are_told) {
  DoctorFacts facts = fit();
  facts.ranks[2].core_share = 3;
  std::vector<Finding> findings = judge_cores(facts);
  ASSERT_EQ(findings.size(), 2U);
  expect(findings, Severity::kWarning, "cores",
         "rank 2 on node2 has 3 cores; a rank with a GPU needs 4 or more");
  expect({findings[1]}, Severity::kWarning, "cores", "rank 2 on node2 has 3, rank 0 on node1 has 4");
  for (RankFacts& rank : facts.ranks) rank.core_share = 3;
  findings = judge_cores(facts);
  ASSERT_EQ(findings.size(), 1U);
  expect(findings, Severity::kWarning, "cores",
         "rank 0 on node1 has 3 cores; a rank with a GPU needs 4 or more (4 ranks have fewer)");
}

TEST(DoctorTest, Links_between_the_GPUs_of_a_host_are_told) {
  DoctorFacts facts = fit();
  expect(judge_links(facts), Severity::kFine, "links",
         "4 GPUs, all pairs on one host reach each other directly");
  facts.ranks[3].reached_devices.clear();
  expect(judge_links(facts), Severity::kWarning, "links",
         "the GPUs of ranks 2 and 3 on node2 do not reach each other directly");
  facts.ranks[0].reached_devices.clear();
  expect(judge_links(facts), Severity::kWarning, "links",
         "ranks 0 and 1 on node1 do not reach each other directly (2 pairs in all)");
  facts = fit();
  for (size_t rank = 2; rank < 4; ++rank) facts.ranks[rank].seen_devices = {facts.ranks[rank].identity};
  expect(judge_links(facts), Severity::kNote, "links", "ranks 2 and 3 on node2 see only their own GPUs");
  for (size_t rank = 0; rank < 4; ++rank) facts.ranks[rank].host = "node" + std::to_string(rank);
  EXPECT_TRUE(judge_links(facts).empty());
}

TEST(DoctorTest, What_mpirun_will_ask_of_root_and_of_many_ranks_is_told) {
  DoctorFacts facts = fit();
  facts.ranks.resize(1);
  facts.ranks[0].root = true;
  for (const Finding& finding : judge_programs(facts)) EXPECT_NE(finding.check, "root");  // mpirun was told
  facts.ranks[0].thread_level.clear();
  expect(judge_programs(facts), Severity::kNote, "root", "Open MPI starts no ranks as root");
  expect(judge_cores(facts), Severity::kFine, "cores",
         "4 cores; mpirun starts more ranks than there are cores");
  facts.ranks[0].root = false;
  for (const Finding& finding : judge_programs(facts)) EXPECT_NE(finding.check, "root");
}

TEST(DoctorTest, Devices_are_judged_by_what_was_asked_for) {
  DoctorFacts facts = fit();
  facts.ranks[3].device = "NVIDIA A100";
  expect(judge_devices(facts), Severity::kWarning, "device", "rank 3 on node2 has \"NVIDIA A100\"");
  facts = fit();
  facts.ranks[3].driver = "12.4";
  expect(judge_devices(facts), Severity::kWarning, "driver", "12.4");
  facts = fit();
  facts.ranks[3].nccl = "NCCL 1";
  expect(judge_devices(facts), Severity::kProblem, "NCCL", "NCCL 1");
  facts = fit();
  for (RankFacts& rank : facts.ranks) rank.device_reason = "rank 1 on node1: no driver";
  expect(judge_devices(facts), Severity::kWarning, "device", "the CPU computes: rank 1 on node1: no driver");
  facts.device = "cuda";
  expect(judge_devices(facts), Severity::kProblem, "device", "rank 1 on node1: no driver");
  facts.device = "auto";
  for (RankFacts& rank : facts.ranks) rank.gpu_evidence = "rank 0 on node1: SLURM_GPUS=4";
  expect(judge_devices(facts), Severity::kProblem, "device",
         "the job has GPUs (rank 0 on node1: SLURM_GPUS=4) and cannot use them: rank 1 on node1: no driver");
  facts.device = "cpu";
  expect(judge_devices(facts), Severity::kFine, "device", "the CPU");
}

TEST(DoctorTest, Steps_that_differ_are_told_with_rank_and_host) {
  DoctorFacts facts = fit();
  expect(judge_steps(facts), Severity::kFine, "steps", "two training steps in f32 and bf16 agree");
  facts.ranks[2].wrong_steps = {"step 1 in f32: the loss is 7, on the CPU 8", "step 2 in bf16: more"};
  facts.ranks[3].step_error = "no memory";
  const std::vector<Finding> findings = judge_steps(facts);
  ASSERT_EQ(findings.size(), 2U);
  expect(findings, Severity::kProblem, "steps",
         "rank 2 on node2 computes wrongly: step 1 in f32: the loss is 7, on the CPU 8");
  expect({findings[1]}, Severity::kProblem, "steps", "rank 3 on node2 takes no training step: no memory");
  EXPECT_EQ(rank_facts_from_json(to_json(facts.ranks[2])).wrong_steps, facts.ranks[2].wrong_steps);
  for (RankFacts& rank : facts.ranks) rank = {};
  EXPECT_TRUE(judge_steps(facts).empty());  // on CPUs nothing is compared
}

TEST(DoctorSteps, AgreeOnTheCpuInBothPrecisions) {
  EXPECT_TRUE(compare_steps({.threads = 2}, 1, model_of_steps("tiny")).empty());
}

TEST(DoctorTest, Sums_are_compared_with_the_link_between_hosts_and_with_a_copy_on_one) {
  DoctorFacts facts = fit();
  facts.sums.bandwidth = 1.0 * kGigabit;
  expect(judge_sums(facts), Severity::kWarning, "sums",
         "30% of 1.2 GiB/s of the slowest host's fastest link");
  facts.ranks[3].link_rate = 1.0 * kGigabit;
  expect(judge_sums(facts), Severity::kFine, "sums", "right");
  facts.ranks[3].link_rate = 0.0;
  expect(judge_sums(facts), Severity::kNote, "sums", "is unknown");
  for (RankFacts& rank : facts.ranks) rank.host = "node1";
  facts.sums.bandwidth = 1e9;
  expect(judge_sums(facts), Severity::kFine, "sums", "5% of 9.3 GiB/s of a copy in memory");
  facts.sums.bandwidth = 1e8;
  expect(judge_sums(facts), Severity::kWarning, "sums", "5% of");
  facts.sums.error = "a sum is wrong";
  expect(judge_sums(facts), Severity::kProblem, "sums", "a sum is wrong");
}

TEST(DoctorTest, A_folder_that_fails_is_not_shared_or_is_full_is_told) {
  DoctorFacts facts = fit();
  facts.ranks[2].sees_folder = false;
  expect(judge_folder(facts), Severity::kProblem, "folder", "rank 2 on node2 does not see in /run");
  facts.ranks[0].folder_error = "fsync fails";
  expect(judge_folder(facts), Severity::kProblem, "folder", "rank 0 on node1: fsync fails");
  facts = fit();
  facts.ranks[0].folder_free = 3 * facts.checkpoint_bytes - 1;
  expect(judge_folder(facts), Severity::kProblem, "disk", "three checkpoints of 1.0 GiB need 3.0 GiB");
  facts.checkpoint_bytes = 0;
  facts.ranks[0].folder_free = 1 << 20;
  expect(judge_folder(facts), Severity::kWarning, "disk", "1.0 MiB are free");
  facts.folder = "";
  expect(judge_folder(facts), Severity::kNote, "folder", "not checked");
}

TEST(DoctorTest, Limits_are_told_once_each) {
  DoctorFacts facts = fit();
  for (RankFacts& rank : facts.ranks) rank.file_size = facts.checkpoint_bytes - 1;
  const std::vector<Finding> findings = judge_limits(facts);
  expect(findings, Severity::kProblem, "file size", "rank 0 on node1 may write files of at most 1024.0 MiB");
  EXPECT_EQ(findings.size(), 1U);
  facts = fit();
  facts.ranks[1].file_size = 2 * facts.checkpoint_bytes;
  expect(judge_limits(facts), Severity::kWarning, "file size", "rank 1");
  facts.ranks[1].open_files = 256;
  expect(judge_limits(facts), Severity::kWarning, "open files", "256 files");
  facts.ranks[1].shared_memory_free = 10 << 20;
  expect(judge_limits(facts), Severity::kWarning, "shared memory", "10.0 MiB left for 2 ranks");
  facts.ranks[1].shared_memory_free = 0;
  expect(judge_limits(facts), Severity::kProblem, "shared memory", "0 B left");
  facts.ranks[1].locked_memory = 8 << 20;
  expect(judge_limits(facts), Severity::kWarning, "locked memory", "8.0 MiB");
}

TEST(DoctorTest, A_clock_counts_only_beyond_what_its_measurement_leaves_open) {
  DoctorFacts facts = fit();
  facts.ranks[2].clock_ahead = -5.0;
  facts.ranks[2].clock_error = 4.5;
  expect(judge_clocks(facts), Severity::kFine, "clocks", "agree");
  facts.ranks[2].clock_error = 0.1;
  expect(judge_clocks(facts), Severity::kWarning, "clocks",
         "the clock of node2 is 5.0 s behind that of rank 0");
}

}  // namespace
}  // namespace ventris
