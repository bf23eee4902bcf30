// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ventris::data {

/// XXH3-128 of bytes in pieces.
class Digest {
 public:
  Digest();
  void add(const void* data, size_t bytes);
  XXH128_canonical_t value() const;
  std::string hexadecimal() const;

 private:
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state_;
};

std::string hexadecimal(const XXH128_canonical_t& value);

/// The first bytes of a file of ours, before what HDF5 stores.
inline constexpr int64_t kUserBlockBytes = 512;

/// Throws DataError kBadData, naming the file and `difference`, from which it is seen that the file changed.
[[noreturn]] void fail_changed(const std::string& path, const std::string& difference);

/// Throws the same unless the file of `bytes` bytes has as many after its user block as are `recorded` there.
void require_length(const std::string& path, int64_t bytes, uint64_t recorded);

/// Private to data/io. A file with a tree of digests (docs/formats.md), so that any part of a large one can
/// be checked alone: leaves of 4 KiB, the pages that random access reads; 256
/// of them, 1 MiB, are a branch, whose leaf digests are again a page; the root is in the user block. Opening
/// reads the branch digests, 16 bytes for each MiB. All are XXH3-128: one of 64 bits would save 0.2 % of the
/// file, and the root would no longer tell files apart as surely as the digest of a whole file. Const use is
/// thread-safe. Errors: DataError kBadData with the file and the bytes that changed, kIo.
class DigestTree {
 public:
  static constexpr int64_t kLeafBytes = 4096;
  static constexpr int64_t kLeavesOfABranch = 256;
  static constexpr char kMagic[] = "VENTRIS2";  // at the beginning of such a file

  /// Whether the file of `bytes` bytes begins with the magic.
  static bool is_in(int fd, int64_t bytes, const std::string& path);
  /// Appends the digests of [kUserBlockBytes, bytes) to a file, and writes its user block. `write` is
  /// write(data, bytes, offset).
  static DigestTree append_to(int fd, int64_t bytes, const std::string& path,
                              const std::function<void(const void*, int64_t, int64_t)>& write);

  /// Reads and compares the user block and the branch digests. The descriptor must stay open, and is not
  /// owned.
  DigestTree(int fd, int64_t bytes, const std::string& path);

  /// The same of another descriptor of the file.
  DigestTree with_descriptor(int fd) const { return {fd, end_, path_, branches_}; }

  /// The end of what has digests, a multiple of kLeafBytes.
  int64_t end() const { return end_; }
  int64_t leaves() const { return end_ / kLeafBytes; }
  /// Where the digest of a leaf is stored; those of the leaves of a branch follow each other.
  int64_t digest_at(int64_t leaf) const { return end_ + leaf * int64_t{sizeof(XXH128_canonical_t)}; }
  const std::string& root() const { return root_; }  // hexadecimal
  const std::string& path() const { return path_; }

  /// Reads [offset, offset + bytes), which must be from kUserBlockBytes to end(): all leaves that hold them
  /// are compared.
  void read(int64_t offset, void* to, int64_t bytes) const;
  /// Compares the bytes of a leaf, from its first one that has a digest, and the digests of its branch, each
  /// time: another file that is written over this one brings digests that match its bytes.
  void compare(int64_t leaf, const std::byte* bytes) const;
  /// Reads and compares everything.
  void check_all(int threads) const;

  /// The bytes of a leaf that have a digest: all but those in the user block.
  static int64_t begin_of(int64_t leaf) { return leaf == 0 ? kUserBlockBytes : leaf * kLeafBytes; }
  static int64_t end_of(int64_t leaf) { return (leaf + 1) * kLeafBytes; }

 private:
  using Digests = std::vector<XXH128_canonical_t>;

  DigestTree(int fd, int64_t end, const std::string& path, Digests branches);
  int64_t branch_count() const { return (leaves() + kLeavesOfABranch - 1) / kLeavesOfABranch; }
  int64_t file_bytes() const;
  XXH128_canonical_t computed_root() const;
  std::string user_block() const;
  /// Of the leaves of a branch, compared with that of the branch.
  Digests leaf_digests(int64_t branch) const;
  void compare(int64_t leaf, const std::byte* bytes, const Digests& of_branch) const;

  int fd_;
  std::string path_;
  int64_t end_ = 0;
  Digests branches_;
  std::string root_;
};

}  // namespace ventris::data
