// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

// Private to data/files/hdf5_*.cc.

namespace ventris::data {

// The listing that the processes exchange: records of a mark and its fields. Numbers have 8 bytes, a text is
// preceded by its length.
namespace listed {
constexpr char kGroup = 'G';    // name
constexpr char kDataset = 'D';  // name, type or -1, offset, rank or kNullSpace, dimensions
constexpr char kString = 'S';   // object, name, value; and so on:
constexpr char kInteger = 'I';
constexpr char kDouble = 'F';
constexpr char kOther = 'O';    // object, name
constexpr char kRefusal = 'R';  // the reason; the last record
constexpr int64_t kNullSpace = -1;
}  // namespace listed

/// The listing of a file, or a refusal. Runs in the process in which the library may crash; under Hdf5Lock.
std::string list_hdf5(const std::string& path, int fd, int64_t bytes);

}  // namespace ventris::data
