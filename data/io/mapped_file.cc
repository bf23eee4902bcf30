// SPDX-License-Identifier: Apache-2.0
#include "data/io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <new>

#include "data/error.h"

namespace ventris::data {
namespace {

constexpr int64_t kBits = 64;

uint64_t bit_of(int64_t leaf) {
  return uint64_t{1} << (leaf % kBits);
}

}  // namespace

MappedFile::MappedFile(int fd, int64_t bytes, const std::string& path, const DigestTree* tree)
    : size_(static_cast<size_t>(bytes)), checked_(tree == nullptr ? 0 : tree->leaves() / kBits + 1) {
  address_ = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd, 0);
  if (address_ == MAP_FAILED) {
    if (errno == ENOMEM) throw std::bad_alloc();  // a limit on the memory of the process
    fail(ErrorKind::kIo, "{}: cannot map {} bytes into memory: {}", path, size_, system_reason(errno));
  }
  if (tree == nullptr) return;
  file_ = FileHandle(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!file_.valid()) {
    const int error = errno;
    ::munmap(address_, size_);
    fail(ErrorKind::kIo, "{}: cannot keep the file open: {}", path, system_reason(error));
  }
  tree_.emplace(tree->with_descriptor(file_.fd()));
  ::madvise(address_, size_, MADV_RANDOM);
}

MappedFile::~MappedFile() {
  ::munmap(address_, size_);
}

bool MappedFile::is_checked(int64_t leaf) const {
  return (checked_[static_cast<size_t>(leaf / kBits)].load(std::memory_order_acquire) & bit_of(leaf)) != 0;
}

bool MappedFile::has_checked_branch(int64_t leaf) const {
  static_assert(DigestTree::kLeavesOfABranch % kBits == 0, "no word has bits of two branches");
  constexpr size_t kWords = DigestTree::kLeavesOfABranch / kBits;
  const auto first = static_cast<size_t>(leaf / DigestTree::kLeavesOfABranch) * kWords;
  for (size_t word = first; word < std::min(first + kWords, checked_.size()); ++word) {
    if (checked_[word].load(std::memory_order_acquire) != 0) return true;
  }
  return false;
}

void MappedFile::check(const void* address, size_t bytes) const {
  if (!tree_ || bytes == 0) return;
  const int64_t begin = static_cast<const std::byte*>(address) - at(0);
  const int64_t last = (begin + static_cast<int64_t>(bytes) - 1) / DigestTree::kLeafBytes;
  for (int64_t leaf = begin / DigestTree::kLeafBytes; leaf <= last; ++leaf) {
    if (is_checked(leaf)) continue;
    tree_->compare(leaf, at(DigestTree::begin_of(leaf)));
    checked_[static_cast<size_t>(leaf / kBits)].fetch_or(bit_of(leaf), std::memory_order_release);
  }
}

void MappedFile::expect(const void* address, size_t bytes) const {
  if (bytes == 0) return;
  const int64_t begin = static_cast<const std::byte*>(address) - at(0);
  const int64_t first = begin / DigestTree::kLeafBytes * DigestTree::kLeafBytes;
  // Advice: a system that cannot follow it reads the pages when they are used.
  ::madvise(static_cast<std::byte*>(address_) + first, bytes + static_cast<size_t>(begin - first),
            MADV_WILLNEED);
  if (!tree_) return;
  // The first use of a branch needs the digests of its leaves.
  constexpr int64_t kLeaves = DigestTree::kLeavesOfABranch;
  constexpr int64_t kBranchBytes = DigestTree::kLeafBytes * kLeaves;
  const int64_t last = (begin + static_cast<int64_t>(bytes) - 1) / kBranchBytes;
  for (int64_t branch = begin / kBranchBytes; branch <= last; ++branch) {
    if (has_checked_branch(branch * kLeaves)) continue;
    const int64_t digests = tree_->digest_at(branch * kLeaves);
    ::posix_fadvise(file_.fd(), digests, tree_->digest_at((branch + 1) * kLeaves) - digests,
                    POSIX_FADV_WILLNEED);
  }
}

}  // namespace ventris::data
