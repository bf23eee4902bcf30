// SPDX-License-Identifier: Apache-2.0
#include "data/scores/mecab.h"

#include <dlfcn.h>

#include <cctype>
#include <filesystem>
#include <string>
#include <type_traits>
#include <vector>

#include "data/error.h"

namespace ventris::data {
namespace {

constexpr const char* kLibraryName = "libmecab.so.2";

/// As in the library's own C interface, which has been the same since its release 0.99.
struct DictionaryInfo {
  const char* filename;
  const char* charset;
  unsigned size;
  int type;
  unsigned left_size;
  unsigned right_size;
  unsigned short version;
  DictionaryInfo* next;
};

std::string letters_of(const char* text) {
  std::string letters;
  for (; text != nullptr && *text != '\0'; ++text) {
    const auto c = static_cast<unsigned char>(*text);
    if (std::isalnum(c) != 0) letters += static_cast<char>(std::tolower(c));
  }
  return letters;
}

}  // namespace

struct Mecab::Library {
  Model* (*make)(int count, char** arguments);
  void (*destroy)(Model*);
  const char* (*error)(Model*);
  const char* (*version)();
  const DictionaryInfo* (*dictionary)(Model*);
  const char* (*cut)(Model*, const char* text, size_t size);

  Library() {
    void* const handle = ::dlopen(kLibraryName, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      fail(ErrorKind::kMissingInput,
           "the tokenizers ja-mecab and ko-mecab need MeCab, whose library cannot be loaded ({}); "
           "on Debian and Ubuntu it is in the package libmecab2",
           ::dlerror());
    }
    const auto find = [&](auto& function, const char* name) {
      void* const symbol = ::dlsym(handle, name);
      if (symbol == nullptr) fail(ErrorKind::kMissingInput, "{} has no function {}", kLibraryName, name);
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(symbol);
    };
    find(make, "mecab_new");
    find(destroy, "mecab_destroy");
    find(error, "mecab_strerror");
    find(version, "mecab_version");
    find(dictionary, "mecab_dictionary_info");
    find(cut, "mecab_sparse_tostr2");
  }
};

const Mecab::Library& Mecab::library() {
  static const Library loaded;
  return loaded;
}

Mecab::Mecab(const std::string& dictionary)
    : library_(library()),
      dictionary_(dictionary),
      version_(library_.version()),
      model_(nullptr, library_.destroy) {
  if (std::error_code error; !std::filesystem::is_directory(dictionary, error)) {
    fail(ErrorKind::kMissingInput, "{}: no such folder; expected a MeCab dictionary", dictionary);
  }
  // User and system settings are not read.
  std::vector<std::string> words = {"ventris", "-r", "/dev/null", "-d", dictionary, "-O", "wakati"};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  model_.reset(library_.make(static_cast<int>(arguments.size()), arguments.data()));
  if (!model_) {
    fail(ErrorKind::kBadData,
         "{}: MeCab cannot use this folder as a dictionary; expected sound files dicrc, sys.dic, "
         "unk.dic, char.bin and matrix.bin",
         dictionary);
  }
  const DictionaryInfo* const info = library_.dictionary(model_.get());
  if (info == nullptr || letters_of(info->charset) != "utf8") {
    fail(ErrorKind::kBadData,
         "{}: the dictionary is of {} text; expected one of UTF-8, "
         "such as that of Debian's package mecab-ipadic-utf8",
         dictionary, info == nullptr ? "unknown" : info->charset);
  }
  words_ = info->size;
}

std::string Mecab::cut(std::string_view line) const {
  const char* const words = library_.cut(model_.get(), line.data(), line.size());
  if (words == nullptr) {
    fail(ErrorKind::kBadData, "{}: MeCab cannot tokenize a line of {} bytes: {}", dictionary_, line.size(),
         library_.error(model_.get()));
  }
  return words;
}

}  // namespace ventris::data
