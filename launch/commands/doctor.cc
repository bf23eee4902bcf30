// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "backend/device/error.h"
#include "comm/communicator.h"
#include "launch/command.h"
#include "launch/job.h"
#include "launch/output.h"
#include "trainer/checks/doctor.h"
#include "trainer/program_version.h"
#include "trainer/train_options.h"

namespace ventris {

namespace {

struct DoctorCommandOptions {
  DoctorOptions doctor;
  double comm_timeout = 30.0;
  bool json = false;
};

int run_doctor(const DoctorCommandOptions& options, Job& job) {
  job.communicator.limit_waits(options.comm_timeout);
  const DoctorReport report =
      examine(job.communicator, job.environment, options.doctor, program_name_and_version());
  if (job.is_rank_zero()) write_output(options.json ? doctor_json(report) + "\n" : doctor_page(report));
  return report.problems.empty() ? 0 : static_cast<int>(ExitCode::kUnavailable);
}

}  // namespace

Command doctor_command() {
  const auto options = std::make_shared<DoctorCommandOptions>();
  Command command;
  command.name = "doctor";
  command.summary = "shows the machines of a job and whether they compute and sum correctly";
  command.synopsis = "[--device auto|cpu|cuda] [--preset PRESET] [--json]";
  command.description = {
      "Start it like 'ventris train', with mpirun or srun and the same hosts. "
      "It prints the versions of the program, MPI, NCCL and drivers and, of each rank, host, cores, memory and device. "
      "Each GPU takes two training steps of the preset's model, whose losses and gradients are compared with "
      "the CPU's. Sums over the ranks are checked, and their rate and latency measured. All this takes seconds.",
      "A problem is something that would make training fail: the exit code is 69. "
      "Warnings do not change the exit code."};
  command.examples = {{"doctor", "This machine:"},
                      {"mpirun -np 16 --hostfile hosts ventris doctor --device cuda",
                       "The hosts of a job, before the job starts:"}};
  command.exit_codes = {{69, "training would fail; the problems say why"}};
  command.many_ranks = true;
  OptionTable& table = command.options;
  table.group("Checks");
  table.choice("preset", options->doctor.preset, preset_names(),
               "Model of the two steps on GPUs. A larger one takes more time and memory, also on the host.");
  table.choice("device", options->doctor.device, {"auto", "cpu", "cuda"},
               "Device for training, as for train.");
  table.number("comm-timeout", options->comm_timeout, {.min = 0, .max = 1e7},
               "Seconds that a rank waits for others before the job ends with exit code 69; 0: no limit.");
  table.toggle("json", options->json, "Prints one JSON object with the facts of every rank.");
  command.run = [options](Job& job) { return run_doctor(*options, job); };
  return command;
}

}  // namespace ventris
