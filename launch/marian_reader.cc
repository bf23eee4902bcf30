// SPDX-License-Identifier: Apache-2.0
#include "launch/marian_reader.h"

#include <fmt/core.h>

#include "backend/error.h"
#include "trainer/text.h"

namespace ventris {

std::string line_of(const ConversionRemark& remark) {
  const char* const kind = remark.kind == ConversionRemark::Kind::kMissing   ? "no counterpart"
                           : remark.kind == ConversionRemark::Kind::kDiffers ? "differs"
                                                                             : "not needed";
  return fmt::format("{}: {}: {}", remark.place, kind, remark.text);
}

ConfigReader marian_reader(MarianUse use, std::vector<std::string>& remarks) {
  return [use, &remarks](const std::string& yaml, const std::string& path,
                         const std::set<std::string>& given) {
    const Conversion conversion = convert_marian(use, yaml, path);
    for (const ConversionRemark& remark : conversion.remarks) {
      if (remark.kind == ConversionRemark::Kind::kDiffers) remarks.push_back(line_of(remark));
      if (remark.kind != ConversionRemark::Kind::kMissing || given.contains(remark.settled_by)) continue;
      fail(ExitCode::kBadConfiguration, "{}. {}'ventris convert-config {}' writes the rest as a file to edit",
           line_of(remark),
           remark.settled_by.empty() ? "" : fmt::format("Give --{}, or leave it out: ", remark.settled_by),
           shell_word(path));
    }
    return conversion.options;
  };
}

}  // namespace ventris
