// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "backend/error.h"
#include "comm/communicator.h"
#include "launch/command.h"
#include "launch/job.h"
#include "launch/output.h"
#include "launch/train_option_table.h"
#include "trainer/checks/doctor_facts.h"
#include "trainer/checks/doctor_judgement.h"
#include "trainer/checks/doctor_report.h"
#include "trainer/program_version.h"

namespace ventris {

namespace {

struct DoctorCommandOptions {
  DoctorOptions doctor;
  double comm_timeout = 30.0;
  bool json = false;
};

int run_doctor(const DoctorCommandOptions& options, Job& job) {
  job.communicator.limit_waits(options.comm_timeout);
  const DoctorFacts facts =
      gather_doctor_facts(job.communicator, job.environment, options.doctor, program_name_and_version());
  const std::vector<Finding> findings = judge(facts);
  if (job.speaks())
    write_output(options.json ? doctor_json(facts, findings) + "\n" : doctor_page(facts, findings));
  return findings.front().severity == Severity::kProblem ? static_cast<int>(ExitCode::kUnavailable) : 0;
}

}  // namespace

Command doctor_command() {
  const auto options = std::make_shared<DoctorCommandOptions>();
  Command command;
  command.name = "doctor";
  command.summary = "checks these machines for problems that would affect training";
  command.synopsis = "[--model-dir DIR] [--device auto|cpu|cuda] [--preset PRESET] [--json]";
  command.description = {
      "Start it like 'ventris train', with mpirun or srun and the same hosts. "
      "It checks the programs, MPI and its threads, the hosts and the cores of each rank, "
      "CUDA devices, drivers, NCCL and the links between the GPUs of a host, "
      "two training steps of the preset's model on each GPU against the CPU, sums over the ranks with their rate and latency, the run folder, "
      "system limits and the clocks. It takes seconds.",
      "The findings fit on one page, the most severe first, each with what to do. "
      "A problem is something that would make training fail: the exit code is 69. "
      "Warnings and notes do not change the exit code. The expected rate between hosts is 30% of the rate "
      "of the slowest host's fastest network device; on one host it is 5% of the rate of a copy in memory.",
      "With --model-dir rank 0 writes, renames and syncs a small file there, which all ranks must see. "
      "Then it removes the file, and the folder if it created it."};
  command.examples = {{"doctor --model-dir model", "This machine:"},
                      {"mpirun -np 16 --hostfile hosts ventris doctor --model-dir /shared/model",
                       "The hosts of a job, before the job starts:"}};
  command.exit_codes = {{69, "training would fail; the findings say why"}};
  command.many_ranks = true;
  OptionTable& table = command.options;
  table.group("Checks");
  table.text("model-dir", "DIR", options->doctor.folder,
             "The run folder to check. Default: none is checked.");
  table.choice("preset", options->doctor.preset, preset_names(),
               "Model of the two steps on GPUs. A larger one takes more time and memory, also on the host.");
  table.choice("device", options->doctor.device, {"auto", "cpu", "cuda"},
               "Device for training, as for train.");
  table.number("comm-timeout", options->comm_timeout, {.min = 0, .max = 1e7},
               "Seconds that a rank waits for others before the job ends with exit code 69; 0: no limit.");
  table.toggle("json", options->json,
               "Prints one JSON object with the findings and the facts of every rank.");
  command.run = [options](Job& job) { return run_doctor(*options, job); };
  return command;
}

}  // namespace ventris
