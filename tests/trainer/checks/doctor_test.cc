// SPDX-License-Identifier: Apache-2.0
#include "trainer/checks/doctor.h"

#include <gtest/gtest.h>

#include "trainer/checks/doctor_steps.h"

namespace ventris {
namespace {

/// Two hosts with two ranks each that are as they should be.
DoctorReport fit() {
  DoctorReport report{.sum_latency = 12e-6, .sum_bandwidth = 370e9};
  for (int rank = 0; rank < 4; ++rank) {
    report.ranks.push_back({.host = rank < 2 ? "node1" : "node2",
                            .cores = 4,
                            .host_cores = 8,
                            .memory = int64_t{1} << 36,
                            .program = "ventris 1",
                            .mpi = "Open MPI 4",
                            .nccl = "2.28.9",
                            .driver = "580.65.06 for CUDA 13.0",
                            .device = "NVIDIA H200"});
  }
  return report;
}

void expect(DoctorReport report, const std::string& problem, const std::string& warning) {
  judge(report);
  const auto only = [](const std::vector<std::string>& texts, const std::string& words) {
    ASSERT_EQ(texts.size(), words.empty() ? 0U : 1U);
    for (const std::string& text : texts) EXPECT_NE(text.find(words), std::string::npos) << text;
  };
  only(report.problems, problem);
  only(report.warnings, warning);
}

TEST(DoctorTest, A_fit_job_has_a_page_of_facts) {
  expect(fit(), "", "");
  EXPECT_EQ(doctor_page(fit()),
            "program      ventris 1\n"
            "MPI          Open MPI 4\n"
            "NCCL         2.28.9\n"
            "ranks 0-1    node1, 4 of 8 cores, 64.0 GiB, NVIDIA H200, driver 580.65.06 for CUDA 13.0\n"
            "ranks 2-3    node2, 4 of 8 cores, 64.0 GiB, NVIDIA H200, driver 580.65.06 for CUDA 13.0\n"
            "steps        losses and gradients of two training steps in f32 and bf16 agree with the CPU's\n"
            "sums         right; 370 GB/s in and out of a rank, 12 us for one number\n"
            "4 ranks: fit to train\n");
}

TEST(DoctorTest, Versions_that_differ_are_problems_and_drivers_and_devices_warnings) {
  DoctorReport report = fit();
  report.ranks[2].program = "ventris 2";
  expect(report, R"(the programs differ: rank 2 on node2 has "ventris 2", rank 0 has "ventris 1")", "");
  report = fit();
  report.ranks[1].mpi = "MPICH";
  expect(report, "rank 1 on node1 has \"MPICH\"", "");
  report = fit();
  report.ranks[3].nccl = "2.20.5";
  expect(report, "the versions of NCCL differ: rank 3 on node2", "");
  report = fit();
  report.ranks[3].driver = "12.4";
  expect(report, "", "the CUDA drivers differ: rank 3 on node2");
  report = fit();
  report.ranks[3].device = "NVIDIA A100";
  expect(report, "", "the devices differ: rank 3 on node2");
  // On CPUs the libraries of devices do not matter.
  report = fit();
  for (RankFacts& rank : report.ranks) rank.device.clear();
  report.ranks[3].nccl = report.ranks[3].driver = "none";
  expect(report, "", "");
}

TEST(DoctorTest, Few_cores_beside_a_GPU_are_told_once) {
  DoctorReport report = fit();
  for (size_t rank = 2; rank < 4; ++rank) report.ranks[rank].cores = 1;
  expect(report, "", "rank 2 on node2 has 1 core; a rank with a GPU needs 4 or more");
  for (RankFacts& rank : report.ranks) rank.device.clear();
  expect(report, "", "");
}

TEST(DoctorTest, A_device_that_computes_wrongly_is_told_with_rank_and_host) {
  DoctorReport report = fit();
  report.ranks[2].faults = {"computes wrongly: step 1 in f32: the loss is 7, on the CPU 8", "more"};
  expect(report, "rank 2 on node2 computes wrongly: step 1 in f32: the loss is 7, on the CPU 8", "");
  judge(report);
  const std::string page = doctor_page(report);
  EXPECT_EQ(page.find("\nsteps "), std::string::npos);
  EXPECT_NE(page.find("\nproblem      rank 2 on node2"), std::string::npos);
  EXPECT_NE(page.find("\n4 ranks: not fit to train\n"), std::string::npos);
}

TEST(DoctorSteps, AgreeOnTheCpuInBothPrecisions) {
  EXPECT_TRUE(faults_of_steps({.threads = 2}, 1, model_of_steps("tiny")).empty());
}

}  // namespace
}  // namespace ventris
