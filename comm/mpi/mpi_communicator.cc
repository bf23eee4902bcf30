// SPDX-License-Identifier: Apache-2.0
#include <mpi.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <exception>
#include <limits>
#include <numeric>
#include <thread>
#include <vector>

#include "backend/device/dtype.h"
#include "backend/device/error.h"
#include "comm/communicator.h"
#include "comm/guard.h"
#include "comm/mpi/check_mpi.h"
#include "comm/mpi/roll_call.h"
#include "comm/mpi_environment.h"
#include "comm/tree_sum.h"

namespace ventris {

namespace {

/// A pending TreeSum of host memory; it makes progress when polled.
class MpiTreeSum {
 public:
  /// `tag` must not be used by another pending sum in `comm`. One is enough for all rounds, as messages
  /// between two ranks do not overtake each other.
  MpiTreeSum(MPI_Comm comm, const TreeSum& sum, int tag);

  /// Whether the sum is complete.
  bool test();

 private:
  void start_round(int round);

  MPI_Comm comm_;
  TreeSum sum_;
  int tag_;
  int round_ = 0;
  std::vector<MPI_Request> requests_;
};

int bytes_of(const Tensor& data) {
  const int64_t bytes = data.size() * static_cast<int64_t>(size_of(data.dtype));
  VENTRIS_CHECK(bytes <= std::numeric_limits<int>::max(), "a message of {} bytes is too long for MPI", bytes);
  return static_cast<int>(bytes);
}

/// Appends the requests of all messages, which have this tag.
void start_messages(const TreeMessages& messages, int tag, MPI_Comm comm,
                    std::vector<MPI_Request>& requests) {
  for (const auto& [peer, data] : messages.receives) {
    requests.push_back(MPI_REQUEST_NULL);
    check_mpi(MPI_Irecv(data.data, bytes_of(data), MPI_BYTE, peer, tag, comm, &requests.back()), "MPI_Irecv");
  }
  for (const auto& [peer, data] : messages.sends) {
    requests.push_back(MPI_REQUEST_NULL);
    check_mpi(MPI_Isend(data.data, bytes_of(data), MPI_BYTE, peer, tag, comm, &requests.back()), "MPI_Isend");
  }
}

MpiTreeSum::MpiTreeSum(MPI_Comm comm, const TreeSum& sum, int tag) : comm_(comm), sum_(sum), tag_(tag) {
  start_round(0);
}

void MpiTreeSum::start_round(int round) {
  round_ = round;
  requests_.clear();
  if (round < kTreeRounds) start_messages(messages_of_round(sum_, round), tag_, comm_, requests_);
}

bool MpiTreeSum::test() {
  while (round_ < kTreeRounds) {
    int arrived = 0;
    check_mpi(
        MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &arrived, MPI_STATUSES_IGNORE),
        "MPI_Testall");
    if (arrived == 0) return false;
    const AddArgs args = round_ == 0 ? additions_of_segment(sum_) : AddArgs{};
    if (!args.steps.empty()) add(*sum_.context, args);
    start_round(round_ + 1);
  }
  return true;
}

/// MPI sum of bf16, for which MPI has no type: an operation on MPI_UINT16_T that adds two numbers in f32 and
/// rounds to the nearest, ties to even. a + b and b + a have the same bits, also if one is NaN, so that
/// algorithms in which several ranks compute the same sum give the same bits. Must be used between MPI's
/// start and end.
class Bf16Sum {
 public:
  Bf16Sum();
  ~Bf16Sum();
  Bf16Sum(const Bf16Sum&) = delete;
  Bf16Sum& operator=(const Bf16Sum&) = delete;
  MPI_Op get() const { return op_; }

 private:
  MPI_Op op_ = MPI_OP_NULL;
};

constexpr uint16_t kNaN = 0x7FC0;

uint16_t bits_of_sum(BF16 a, BF16 b) {
  const float sum = static_cast<float>(a) + static_cast<float>(b);
  return sum == sum ? BF16(sum).bits : kNaN;
}

void add_bf16(void* from, void* to, int* count, MPI_Datatype*) {
  const auto* __restrict terms = static_cast<const BF16*>(from);
  auto* __restrict sums = static_cast<BF16*>(to);
#pragma omp simd
  for (int i = 0; i < *count; ++i) sums[i].bits = bits_of_sum(sums[i], terms[i]);
}

Bf16Sum::Bf16Sum() {
  constexpr int kCommutes = 1;
  check_mpi(MPI_Op_create(add_bf16, kCommutes, &op_), "MPI_Op_create");
}

Bf16Sum::~Bf16Sum() {
  MPI_Op_free(&op_);
}

constexpr const char* kGathering = "a gathering from all ranks";
constexpr int kStopTag = 2;
constexpr int kExchangeTag = 3;
constexpr int kFirstTreeTag = 16;                // after those of other messages
constexpr int64_t kMaxCount = int64_t{1} << 30;  // elements of one call: MPI counts are int

/// Waits by polling. Ranks that share a core must let each other run, which the blocking calls of MPI do not
/// do: after a short time each poll yields, and later it sleeps.
class Waiting {
 public:
  void pause() {
    using namespace std::chrono_literals;
    if (++polls_ < kPollsWithoutYield) return;
    if (polls_ % kPollsWithoutYield == 0 && std::chrono::steady_clock::now() - begin_ > 50ms)
      long_wait_ = true;
    if (long_wait_) {
      std::this_thread::sleep_for(50us);
    } else {
      sched_yield();
    }
  }
  bool is_long() const { return long_wait_; }
  double seconds() { return clock_.seconds(); }

 private:
  static constexpr int kPollsWithoutYield = 64;
  int polls_ = 0;
  bool long_wait_ = false;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  WaitClock clock_;
};

MPI_Datatype mpi_type(DType dtype) {
  return dtype == DType::kF32 ? MPI_FLOAT : dtype == DType::kBF16 ? MPI_UINT16_T : MPI_DOUBLE;
}

// A separate communicator keeps our messages apart from those of other users of MPI.
MPI_Comm duplicate_of_world(const MpiEnvironment& environment) {
  MPI_Comm comm = MPI_COMM_NULL;
  const std::unique_ptr<Guard> guard = environment.guard("MPI_Comm_dup");
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
  check_mpi(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  return comm;
}

/// Equal numbers for equal names.
std::vector<int> numbers_of(const std::vector<std::string>& names) {
  std::vector<int> numbers;
  for (const std::string& name : names)
    numbers.push_back(static_cast<int>(std::find(names.begin(), names.end(), name) - names.begin()));
  return numbers;
}

/// Where the bytes of each rank are among those of all, for calls of MPI, whose counts are int.
class GatheredBytes {
 public:
  explicit GatheredBytes(const std::vector<int64_t>& lengths) {
    const int64_t total = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
    VENTRIS_CHECK(total <= std::numeric_limits<int>::max(), "{} bytes are too many to gather", total);
    counts_.assign(lengths.begin(), lengths.end());
    begins_.resize(counts_.size());
    std::exclusive_scan(counts_.begin(), counts_.end(), begins_.begin(), 0);
    bytes_.resize(static_cast<size_t>(total));
  }
  char* data() { return bytes_.data(); }
  const int* counts() const { return counts_.data(); }
  const int* begins() const { return begins_.data(); }
  std::vector<std::string> by_rank() const {
    std::vector<std::string> all;
    for (size_t rank = 0; rank < counts_.size(); ++rank)
      all.push_back(bytes_.substr(static_cast<size_t>(begins_[rank]), static_cast<size_t>(counts_[rank])));
    return all;
  }

 private:
  std::vector<int> counts_;
  std::vector<int> begins_;
  std::string bytes_;
};

class MpiCommunicator : public Communicator {
 public:
  explicit MpiCommunicator(const MpiEnvironment& environment)
      : environment_(environment), comm_(duplicate_of_world(environment)) {
    const std::unique_ptr<Guard> guard = environment.guard("a first gathering from all ranks");
    check_mpi(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
    const std::vector<std::string> pids = MpiCommunicator::all_gather(std::to_string(::getpid()));
    const std::vector<std::string> hosts = MpiCommunicator::all_gather(environment.host());
    for (size_t rank = 0; rank < hosts.size(); ++rank) ranks_.push_back({hosts[rank], std::stoi(pids[rank])});
    hosts_ = numbers_of(MpiCommunicator::all_gather(environment.shared_memory()));
  }
  // Freeing waits for all ranks; if one leaves with an exception, the job is about to be aborted.
  ~MpiCommunicator() override {
    if (std::uncaught_exceptions() > 0) return;
    const std::unique_ptr<Guard> guard = environment_.guard("MPI_Comm_free");
    MPI_Comm_free(&comm_);
  }
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::vector<int> hosts() const override { return hosts_; }

  void all_reduce_sum(Tensor data) override {
    const size_t under_way = requests_.size() + tree_sums_.size();
    VENTRIS_CHECK(under_way == 0, "{} reductions are under way", under_way);
    start_all_reduce_sum(data);
    finish("a sum over the ranks");
  }

  void start_all_reduce_sum(Tensor data) override {
    VENTRIS_CHECK(data.contiguous(), "the range has rows of {} elements {} apart", data.cols, data.stride);
    const MPI_Datatype type = mpi_type(data.dtype);
    const MPI_Op sum = data.dtype == DType::kBF16 ? bf16_sum_.get() : MPI_SUM;
    const int64_t element = static_cast<int64_t>(size_of(data.dtype));
    for (int64_t begin = 0; begin < data.size(); begin += kMaxCount) {
      const int count = static_cast<int>(std::min(kMaxCount, data.size() - begin));
      MPI_Request request = MPI_REQUEST_NULL;
      check_mpi(MPI_Iallreduce(MPI_IN_PLACE, static_cast<char*>(data.data) + begin * element, count, type,
                               sum, comm_, &request),
                "MPI_Iallreduce");
      requests_.push_back(request);
    }
  }

  // Every sum has its own tag, as its messages may arrive before those of a sum started earlier.
  void start_tree_sum(const TreeSum& sum) override {
    VENTRIS_CHECK(tree_sums_.size() < static_cast<size_t>(kMaxTreeSums), "{} sums are under way",
                  tree_sums_.size());
    tree_sums_.emplace_back(comm_, sum, kFirstTreeTag + static_cast<int>(tree_sums_.size()));
  }

  void start_exchange(const TreeMessages& messages) override {
    start_messages(messages, kExchangeTag, comm_, requests_);
  }

  void progress() override { test_all(); }

  void finish_reductions() override { finish("the sum of gradients"); }

  void pass_stop_on() override {
    VENTRIS_CHECK(!sent_stop_, "the other ranks know already");
    sent_stop_ = true;
    for (int other = 0; other < size_; ++other) {
      if (other == rank_) continue;
      MPI_Request request = MPI_REQUEST_NULL;
      check_mpi(MPI_Isend(nullptr, 0, MPI_CHAR, other, kStopTag, comm_, &request), "MPI_Isend");
      check_mpi(MPI_Request_free(&request), "MPI_Request_free");
    }
  }

  bool stop_was_passed_on() override {
    while (stop_has_come()) take_stop();
    return received_stops_ > 0;
  }

  void receive_stops(int ranks) override {
    if (ranks == 0) return;  // a message may already have arrived from a rank in its next step
    const auto done = [&] {
      static_cast<void>(stop_was_passed_on());
      return received_stops_ + (sent_stop_ ? 1 : 0) >= ranks;
    };
    wait_until(done, "messages of ranks that were asked to stop");
    sent_stop_ = false;
    received_stops_ = 0;
  }

  Attendance call_roll() override {
    const std::vector<bool> present = roll_call_.call();
    const auto first = std::find(present.begin(), present.end(), true) - present.begin();
    return {.first = first == rank_, .absent = describe_missing_ranks(present, ranks_, rank_)};
  }

  void barrier() override {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Ibarrier(comm_, &request), "MPI_Ibarrier");
    wait(request, "MPI_Ibarrier", "a barrier");
  }

  std::string broadcast(const std::string& bytes, int root) override {
    int64_t length = static_cast<int64_t>(bytes.size());
    broadcast_bytes(&length, sizeof(length), root);
    std::string result = rank_ == root ? bytes : std::string(static_cast<size_t>(length), '\0');
    broadcast_bytes(result.data(), length, root);
    return result;
  }

  std::vector<std::string> all_gather(const std::string& bytes) override {
    std::vector<int64_t> lengths(static_cast<size_t>(size_));
    const int64_t mine = static_cast<int64_t>(bytes.size());
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Iallgather(&mine, 1, MPI_INT64_T, lengths.data(), 1, MPI_INT64_T, comm_, &request),
              "MPI_Iallgather");
    wait(request, "MPI_Iallgather", kGathering);

    GatheredBytes all(lengths);
    check_mpi(MPI_Iallgatherv(bytes.data(), static_cast<int>(mine), MPI_CHAR, all.data(), all.counts(),
                              all.begins(), MPI_CHAR, comm_, &request),
              "MPI_Iallgatherv");
    wait(request, "MPI_Iallgatherv", kGathering);
    return all.by_rank();
  }

  std::vector<std::string> gather(const std::string& bytes, int root) override {
    const std::string collective = "a gathering to rank " + std::to_string(root);
    std::vector<int64_t> lengths(static_cast<size_t>(rank_ == root ? size_ : 0));
    const int64_t mine = static_cast<int64_t>(bytes.size());
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Igather(&mine, 1, MPI_INT64_T, lengths.data(), 1, MPI_INT64_T, root, comm_, &request),
              "MPI_Igather");
    wait(request, "MPI_Igather", collective);

    VENTRIS_CHECK(mine <= std::numeric_limits<int>::max(), "{} bytes are too many to gather", mine);
    GatheredBytes all(lengths);
    check_mpi(MPI_Igatherv(bytes.data(), static_cast<int>(mine), MPI_CHAR, all.data(), all.counts(),
                           all.begins(), MPI_CHAR, root, comm_, &request),
              "MPI_Igatherv");
    wait(request, "MPI_Igatherv", collective);
    return all.by_rank();
  }

 private:
  template <typename Done>
  void wait_until(const Done& done, const std::string& collective) {
    const auto begin = std::chrono::steady_clock::now();
    for (Waiting waiting; !done(); waiting.pause()) {
      if (wait_limit() == 0.0 || !waiting.is_long()) continue;
      const double seconds = waiting.seconds();
      if (seconds > wait_limit() || roll_call_.called()) give_up(collective, seconds);
    }
    waited_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  void wait(MPI_Request& request, const char* call, const std::string& collective) {
    const auto done = [&] {
      int finished = 0;
      check_mpi(MPI_Test(&request, &finished, MPI_STATUS_IGNORE), call);
      return finished != 0;
    };
    wait_until(done, collective);
  }

  void finish(const std::string& collective) {
    wait_until([this] { return test_all(); }, collective);
    requests_.clear();
    tree_sums_.clear();
  }

  // The first rank that waits reports it; the others report only if it does not. A rank that is polled when
  // it has just started to wait is late itself.
  [[noreturn]] void give_up(const std::string& collective, double waited) {
    const Attendance attendance = call_roll();
    const bool tells = attendance.first && waited > wait_limit() / 2;
    const std::string whom = attendance.absent.empty() ? "others that were late" : attendance.absent;
    throw LateRanks(late_message(rank_, size_, waited, collective, step(), whom),
                    std::chrono::seconds(tells ? 0 : 3));
  }

  bool stop_has_come() {
    int found = 0;
    check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, kStopTag, comm_, &found, MPI_STATUS_IGNORE), "MPI_Iprobe");
    return found != 0;
  }

  void take_stop() {
    check_mpi(MPI_Recv(nullptr, 0, MPI_CHAR, MPI_ANY_SOURCE, kStopTag, comm_, MPI_STATUS_IGNORE), "MPI_Recv");
    ++received_stops_;
  }

  bool test_all() {
    int done = 1;
    check_mpi(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE),
              "MPI_Iallreduce");
    for (MpiTreeSum& sum : tree_sums_) done = sum.test() && done != 0 ? 1 : 0;
    return done != 0;
  }

  void broadcast_bytes(void* data, int64_t bytes, int root) {
    for (int64_t begin = 0; begin < bytes; begin += kMaxCount) {
      MPI_Request request = MPI_REQUEST_NULL;
      check_mpi(
          MPI_Ibcast(static_cast<char*>(data) + begin, static_cast<int>(std::min(kMaxCount, bytes - begin)),
                     MPI_CHAR, root, comm_, &request),
          "MPI_Ibcast");
      wait(request, "MPI_Ibcast", "a broadcast from rank " + std::to_string(root));
    }
  }

  const MpiEnvironment& environment_;
  MPI_Comm comm_;
  int rank_ = 0;
  int size_ = 1;
  std::vector<MPI_Request> requests_;
  std::vector<RankPlace> ranks_;
  std::vector<int> hosts_;
  std::deque<MpiTreeSum> tree_sums_;  // pending, and those completed since finish()
  bool sent_stop_ = false;
  int received_stops_ = 0;  // of other ranks
  Bf16Sum bf16_sum_;
  RollCall roll_call_{comm_};
};

}  // namespace

std::unique_ptr<Communicator> make_communicator(const MpiEnvironment& environment) {
  if (environment.size() == 1) return make_self_communicator();
  return std::make_unique<MpiCommunicator>(environment);
}

}  // namespace ventris
