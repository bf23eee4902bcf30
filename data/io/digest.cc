// SPDX-License-Identifier: Apache-2.0
#include "data/io/digest.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "data/error.h"
#include "data/io/file_io.h"
#include "data/io/parallel_for.h"

namespace ventris::data {

Digest::Digest() : state_(XXH3_createState(), &XXH3_freeState) {
  if (state_ == nullptr) throw std::bad_alloc();
  XXH3_128bits_reset(state_.get());
}

void Digest::add(const void* data, size_t bytes) {
  if (bytes > 0) XXH3_128bits_update(state_.get(), data, bytes);
}

XXH128_canonical_t Digest::value() const {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_.get()));
  return canonical;
}

std::string Digest::hexadecimal() const {
  return data::hexadecimal(value());
}

std::string hexadecimal(const XXH128_canonical_t& value) {
  std::string text;
  for (const unsigned char byte : value.digest) text += fmt::format("{:02x}", byte);
  return text;
}

namespace {

constexpr int64_t kDigestBytes = sizeof(XXH128_canonical_t);
constexpr int64_t kBranchBytes = DigestTree::kLeafBytes * DigestTree::kLeavesOfABranch;

// Positions in the user block.
constexpr int64_t kMagicBytes = 8;
constexpr int64_t kLengthAt = 8;  // of what follows the user block
constexpr int64_t kRootAt = 16;
constexpr int64_t kTableAt = 32;  // where the digests begin
constexpr int64_t kUsedBytes = 40;

XXH128_canonical_t digest_of_leaf(const void* data, size_t bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(data, bytes));
  return canonical;
}

bool equal(const XXH128_canonical_t& a, const XXH128_canonical_t& b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0;
}

}  // namespace

void fail_changed(const std::string& path, const std::string& difference) {
  fail(
      ErrorKind::kBadData,
      "{}: {}: it was changed, or cut, after ventris wrote it. Copy it again. If another program wrote to it, "
      "take a copy from before, or make it with ventris again.",
      path, difference);
}

void require_length(const std::string& path, int64_t bytes, uint64_t recorded) {
  if (recorded == static_cast<uint64_t>(bytes - kUserBlockBytes)) return;
  // A record that is damaged may be any number.
  constexpr auto kBlock = static_cast<uint64_t>(kUserBlockBytes);
  const uint64_t expected = std::min(recorded, std::numeric_limits<uint64_t>::max() - kBlock) + kBlock;
  fail_changed(path, fmt::format("its length is {} bytes, but {} were written", bytes, expected));
}

bool DigestTree::is_in(int fd, int64_t bytes, const std::string& path) {
  std::array<char, kMagicBytes> magic{};
  if (bytes < kUserBlockBytes) return false;
  read_all(fd, magic.data(), kMagicBytes, 0, path);
  return std::memcmp(magic.data(), kMagic, kMagicBytes) == 0;
}

int64_t DigestTree::file_bytes() const {
  return end_ + kDigestBytes * (leaves() + branch_count());
}

XXH128_canonical_t DigestTree::computed_root() const {
  const std::array<int64_t, 3> shape = {end_, kLeafBytes, kLeavesOfABranch};
  Digest digest;
  digest.add(branches_.data(), branches_.size() * kDigestBytes);
  digest.add(shape.data(), sizeof(shape));
  return digest.value();
}

std::string DigestTree::user_block() const {
  const int64_t length = file_bytes() - kUserBlockBytes;
  const XXH128_canonical_t root = computed_root();
  std::string block(kUserBlockBytes, '\0');
  std::memcpy(block.data(), kMagic, kMagicBytes);
  std::memcpy(block.data() + kLengthAt, &length, sizeof(length));
  std::memcpy(block.data() + kRootAt, &root, sizeof(root));
  std::memcpy(block.data() + kTableAt, &end_, sizeof(end_));
  return block;
}

DigestTree::DigestTree(int fd, int64_t end, const std::string& path, Digests branches)
    : fd_(fd), path_(path), end_(end), branches_(std::move(branches)), root_(hexadecimal(computed_root())) {}

DigestTree DigestTree::append_to(int fd, int64_t bytes, const std::string& path,
                                 const std::function<void(const void*, int64_t, int64_t)>& write) {
  const int64_t end = (bytes + kLeafBytes - 1) / kLeafBytes * kLeafBytes;
  const std::string zeros(static_cast<size_t>(end - bytes), '\0');
  if (!zeros.empty()) write(zeros.data(), end - bytes, bytes);
  Digests branches;
  std::vector<char> branch(static_cast<size_t>(kBranchBytes));
  for (int64_t at = 0; at < end; at += kBranchBytes) {
    const int64_t size = std::min(kBranchBytes, end - at);
    read_all(fd, branch.data(), size, at, path);
    Digests digests;
    for (int64_t leaf = at / kLeafBytes; end_of(leaf) <= at + size; ++leaf) {
      digests.push_back(digest_of_leaf(branch.data() + begin_of(leaf) - at,
                                       static_cast<size_t>(end_of(leaf) - begin_of(leaf))));
    }
    const int64_t digest_bytes = std::ssize(digests) * kDigestBytes;
    write(digests.data(), digest_bytes, end + at / kLeafBytes * kDigestBytes);
    branches.push_back(digest_of_leaf(digests.data(), static_cast<size_t>(digest_bytes)));
  }
  DigestTree tree(fd, end, path, std::move(branches));
  write(tree.branches_.data(), std::ssize(tree.branches_) * kDigestBytes, end + tree.leaves() * kDigestBytes);
  const std::string block = tree.user_block();
  write(block.data(), kUserBlockBytes, 0);
  return tree;
}

DigestTree::DigestTree(int fd, int64_t bytes, const std::string& path) : fd_(fd), path_(path) {
  std::string block(kUserBlockBytes, '\0');
  read_all(fd, block.data(), kUserBlockBytes, 0, path);
  int64_t length = 0;
  std::memcpy(&length, block.data() + kLengthAt, sizeof(length));
  std::memcpy(&end_, block.data() + kTableAt, sizeof(end_));
  require_length(path, bytes, static_cast<uint64_t>(length));
  if (end_ < kLeafBytes || end_ > bytes || end_ % kLeafBytes != 0 || file_bytes() != bytes)
    fail_changed(path, fmt::format("its digests cannot begin at byte {}", end_));
  branches_.resize(static_cast<size_t>(branch_count()));
  read_all(fd, branches_.data(), branch_count() * kDigestBytes, end_ + leaves() * kDigestBytes, path);
  root_ = hexadecimal(computed_root());
  const std::string wanted = user_block();
  XXH128_canonical_t stored;
  std::memcpy(&stored, block.data() + kRootAt, sizeof(stored));
  if (!equal(computed_root(), stored))
    fail_changed(path, fmt::format("the digest of its digests is {}, not {}", root_, hexadecimal(stored)));
  for (int64_t i = kUsedBytes; i < kUserBlockBytes; ++i) {
    if (block[static_cast<size_t>(i)] != 0) fail_changed(path, fmt::format("byte {} is not zero", i));
  }
  if (block != wanted) fail_changed(path, "its first bytes are of another file");
}

DigestTree::Digests DigestTree::leaf_digests(int64_t branch) const {
  const int64_t first = branch * kLeavesOfABranch;
  Digests digests(static_cast<size_t>(std::min(kLeavesOfABranch, leaves() - first)));
  const int64_t at = digest_at(first);
  const auto bytes = digests.size() * kDigestBytes;
  read_all(fd_, digests.data(), static_cast<int64_t>(bytes), at, path_);
  if (!equal(digest_of_leaf(digests.data(), bytes), branches_[static_cast<size_t>(branch)]))
    fail_changed(path_, fmt::format("the digests at bytes {} to {} do not match theirs", at,
                                    at + static_cast<int64_t>(bytes) - 1));
  return digests;
}

void DigestTree::compare(int64_t leaf, const std::byte* bytes, const Digests& of_branch) const {
  const auto size = static_cast<size_t>(end_of(leaf) - begin_of(leaf));
  const XXH128_canonical_t present = digest_of_leaf(bytes, size);
  const XXH128_canonical_t& wanted = of_branch[static_cast<size_t>(leaf % kLeavesOfABranch)];
  if (equal(present, wanted)) return;
  fail_changed(path_, fmt::format("the digest of bytes {} to {} is {}, not {}", begin_of(leaf),
                                  end_of(leaf) - 1, hexadecimal(present), hexadecimal(wanted)));
}

void DigestTree::compare(int64_t leaf, const std::byte* bytes) const {
  compare(leaf, bytes, leaf_digests(leaf / kLeavesOfABranch));
}

void DigestTree::read(int64_t offset, void* to, int64_t bytes) const {
  if (offset < kUserBlockBytes || bytes < 0 || offset > end_ || bytes > end_ - offset) {
    fail(ErrorKind::kBadData, "{}: bytes {} to {} are not in the {} bytes of the file that have digests",
         path_, offset, offset + bytes, end_);
  }
  std::vector<std::byte> piece;
  auto* out = static_cast<std::byte*>(to);
  for (int64_t at = offset; at < offset + bytes;) {
    // To the end of the branch at most.
    const int64_t branch = at / kBranchBytes;
    const int64_t until = std::min(offset + bytes, (branch + 1) * kBranchBytes);
    const int64_t first = at / kLeafBytes;
    const int64_t last = (until - 1) / kLeafBytes;
    const int64_t begin = begin_of(first);
    piece.resize(static_cast<size_t>(end_of(last) - begin));
    read_all(fd_, piece.data(), std::ssize(piece), begin, path_);
    const Digests digests = leaf_digests(branch);
    for (int64_t leaf = first; leaf <= last; ++leaf) {
      compare(leaf, piece.data() + (begin_of(leaf) - begin), digests);
    }
    std::memcpy(out, piece.data() + (at - begin), static_cast<size_t>(until - at));
    out += until - at;
    at = until;
  }
}

void DigestTree::check_all(int threads) const {
  parallel_for(branch_count(), threads, [&](int64_t branch) {
    const int64_t begin = std::max(branch * kBranchBytes, kUserBlockBytes);
    std::vector<std::byte> bytes(static_cast<size_t>(std::min((branch + 1) * kBranchBytes, end_) - begin));
    read(begin, bytes.data(), std::ssize(bytes));
  });
}

}  // namespace ventris::data
