// SPDX-License-Identifier: Apache-2.0
#include "data/corpus_writer.h"

#include <algorithm>
#include <deque>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <utility>
#include <variant>

#include "data/corpus_format.h"
#include "data/io/element_type.h"
#include "data/io/file_format.h"
#include "data/io/hdf5_writer.h"

namespace ventris::data {
namespace {

using Attribute = std::variant<std::string, int64_t, double>;

/// Pieces of elements end to end, and where they begin and end.
class TemporaryRaggedArray {
 public:
  TemporaryRaggedArray(const std::string& output, ElementType type)
      : elements_(output, type), offsets_(output, ElementType::kI64), width_(size_of(type)) {
    offsets_.append(&end_, 1);
  }
  void append(const void* elements, int64_t length) {
    elements_.append(elements, length);
    end_ += length;
    offsets_.append(&end_, 1);
  }
  int64_t bytes() const {
    return elements_.size() * static_cast<int64_t>(width_) +
           offsets_.size() * static_cast<int64_t>(sizeof(int64_t));
  }
  void copy_to(Hdf5Writer& writer, const std::string& elements, const std::string& offsets) {
    elements_.copy_to(writer, elements);
    offsets_.copy_to(writer, offsets);
  }

 private:
  TemporaryArray elements_;
  TemporaryArray offsets_;
  size_t width_;
  int64_t end_ = 0;
};

/// The ids of both sides of pairs, those of a pair beside each other.
class TemporaryPairs {
 public:
  TemporaryPairs(const std::string& output, ElementType type)
      : narrow_(type == ElementType::kU16), tokens_(output, type) {}

  /// Also counts them in `part`.
  void append(const CorpusPairs& pairs, CorpusPart& part) {
    const int32_t* source = pairs.source.tokens.data();
    const int32_t* target = pairs.target.tokens.data();
    for (size_t i = 0; i < pairs.source.lengths.size(); ++i) {
      add_side(source, pairs.source.lengths[i], part.source_tokens, part.longest_source);
      add_side(target, pairs.target.lengths[i], part.target_tokens, part.longest_target);
    }
    part.pairs += std::ssize(pairs.source.lengths);
  }
  int64_t bytes() const { return tokens_.bytes(); }
  void copy_to(Hdf5Writer& writer, const std::string& group) {
    tokens_.copy_to(writer, group + "/tokens", group + "/offsets");
  }

 private:
  void add_side(const int32_t*& tokens, int64_t length, int64_t& total, int& longest) {
    if (narrow_) {
      ids_.assign(tokens, tokens + length);
      tokens_.append(ids_.data(), length);
    } else {
      tokens_.append(tokens, length);
    }
    tokens += length;
    total += length;
    longest = std::max(longest, static_cast<int>(length));
  }

  bool narrow_;  // ids in 2 bytes
  TemporaryRaggedArray tokens_;
  std::vector<uint16_t> ids_;
};

/// The lines of a side, one after the other.
class SideLines {
 public:
  explicit SideLines(const CorpusSide& side) : side_(side), text_(side.text.data()) {}
  size_t size() const { return side_.text_lengths.size(); }
  void append_next(TemporaryRaggedArray& to) {
    const int64_t length = side_.text_lengths[next_++];
    to.append(text_, length);
    text_ += length;
  }

 private:
  const CorpusSide& side_;
  const char* text_;
  size_t next_ = 0;
};

/// A set of validation pairs.
struct TemporaryValidSet {
  CorpusPart part;
  TemporaryPairs pairs;
  TemporaryRaggedArray references;
  std::optional<TemporaryRaggedArray> sources = {};

  int64_t bytes() const { return pairs.bytes() + references.bytes() + (sources ? sources->bytes() : 0); }
  void copy_to(Hdf5Writer& writer, const std::string& group) {
    pairs.copy_to(writer, group);
    references.copy_to(writer, group + "/reference_text", group + "/reference_offsets");
    if (sources) sources->copy_to(writer, group + "/source_text", group + "/source_offsets");
  }
};

ElementType id_type(const TokenizerPair& tokenizers) {
  return largest_vocabulary(tokenizers) <= kTwoByteVocabulary ? ElementType::kU16 : ElementType::kI32;
}

}  // namespace

struct CorpusWriter::Impl {
  std::string output;
  const TokenizerPair& tokenizers;
  TemporaryPairs train;
  std::deque<TemporaryValidSet> valid_sets;
  std::optional<TemporaryArray> weights;
  std::optional<TemporaryRaggedArray> text;
  std::vector<CorpusPart> parts;
  bool in_part = false;
  std::vector<std::pair<std::string, Attribute>> attributes;
  std::string digest;

  Impl(const std::string& path, const TokenizerPair& models, const CorpusContents& contents);
  TemporaryValidSet& add_valid_set(const std::string& name);
  void write(Hdf5Writer& writer);
  int64_t bytes() const;
};

CorpusWriter::Impl::Impl(const std::string& path, const TokenizerPair& models, const CorpusContents& contents)
    : output(path), tokenizers(models), train(path, id_type(models)) {
  add_valid_set(kUnnamedValidSet);
  if (contents.weights) weights.emplace(path, ElementType::kF32);
  if (contents.text) text.emplace(path, ElementType::kU8);
}

TemporaryValidSet& CorpusWriter::Impl::add_valid_set(const std::string& name) {
  return valid_sets.emplace_back(
      TemporaryValidSet{.part = {.name = name},
                        .pairs = TemporaryPairs(output, id_type(tokenizers)),
                        .references = TemporaryRaggedArray(output, ElementType::kU8)});
}

/// Approximate size of the complete file.
int64_t CorpusWriter::Impl::bytes() const {
  int64_t sum = train.bytes() + static_cast<int64_t>(tokenizers.target().model().size());
  for (const TemporaryValidSet& set : valid_sets) sum += set.bytes();
  if (!tokenizers.shared()) sum += static_cast<int64_t>(tokenizers.source().model().size());
  if (weights) sum += weights->size() * static_cast<int64_t>(sizeof(float));
  if (text) sum += text->bytes();
  return sum;
}

void CorpusWriter::Impl::write(Hdf5Writer& writer) {
  writer.write_attribute("/", "format", kCorpusFormat);
  writer.write_attribute("/", "format_version",
                         tokenizers.shared() ? kOneVocabularyVersion : kTwoVocabulariesVersion);
  writer.write_attribute("/", "vocab_size", int64_t{tokenizers.target().vocab_size()});
  if (!tokenizers.shared())
    writer.write_attribute("/", "source_vocab_size", int64_t{tokenizers.source().vocab_size()});
  for (const auto& [name, value] : attributes)
    std::visit([&, &key = name](const auto& held) { writer.write_attribute("/", key, held); }, value);
  writer.write_attribute("/", kPartsAttribute, parts_json(parts));
  writer.write_attribute("/", kValidAttribute, part_json(valid_sets.front().part));
  std::vector<CorpusPart> more;
  for (size_t set = 1; set < valid_sets.size(); ++set) more.push_back(valid_sets[set].part);
  if (!more.empty()) writer.write_attribute("/", kMoreValidAttribute, parts_json(more));
  train.copy_to(writer, "/train");
  if (weights) weights->copy_to(writer, "/train/weights");
  if (text) text->copy_to(writer, "/train/text", "/train/text_offsets");
  for (size_t set = 0; set < valid_sets.size(); ++set)
    valid_sets[set].copy_to(writer, set == 0 ? kValidGroup : more_valid_group(valid_sets[set].part.name));
  const auto write_model = [&](const char* name, const Tokenizer& tokenizer) {
    const auto model_bytes = static_cast<int64_t>(tokenizer.model().size());
    writer.write(name, ElementType::kU8, {&model_bytes, 1}, tokenizer.model().data());
  };
  write_model("/tokenizer", tokenizers.target());
  if (!tokenizers.shared()) write_model("/source_tokenizer", tokenizers.source());
}

CorpusWriter::CorpusWriter(const std::string& output, const TokenizerPair& tokenizers,
                           const CorpusContents& contents)
    : impl_(std::make_unique<Impl>(output, tokenizers, contents)) {}
CorpusWriter::~CorpusWriter() = default;

void CorpusWriter::begin_part(const std::string& name) {
  if (impl_->in_part) throw std::logic_error("a corpus begins in another one");
  const int64_t first = impl_->parts.empty() ? 0 : impl_->parts.back().first + impl_->parts.back().pairs;
  impl_->parts.push_back({.name = name, .first = first});
  impl_->in_part = true;
}

void CorpusWriter::end_part(const std::string& details) {
  if (!impl_->in_part) throw std::logic_error("no corpus has begun");
  impl_->parts.back().details = details;
  impl_->in_part = false;
}

void CorpusWriter::add_train(const CorpusPairs& pairs) {
  if (!impl_->in_part) throw std::logic_error("training pairs of no corpus");
  impl_->train.append(pairs, impl_->parts.back());
  if (impl_->weights) {
    std::vector<float> weights = pairs.weights;
    weights.resize(pairs.source.lengths.size(), 1.0F);
    impl_->weights->append(weights.data(), std::ssize(weights));
  }
  if (!impl_->text) return;
  SideLines source(pairs.source);
  SideLines target(pairs.target);
  for (size_t i = 0; i < source.size(); ++i) {
    source.append_next(*impl_->text);
    target.append_next(*impl_->text);
  }
}

void CorpusWriter::begin_valid_set(const std::string& name) {
  const bool is_first = impl_->valid_sets.size() == 1 && impl_->valid_sets.front().part.pairs == 0 &&
                        !impl_->valid_sets.front().sources;
  TemporaryValidSet& set = is_first ? impl_->valid_sets.front() : impl_->add_valid_set(name);
  set.part.name = name;
  set.sources.emplace(impl_->output, ElementType::kU8);
}

void CorpusWriter::add_valid(const CorpusPairs& pairs) {
  TemporaryValidSet& set = impl_->valid_sets.back();
  set.pairs.append(pairs, set.part);
  SideLines references(pairs.target);
  for (size_t i = 0; i < references.size(); ++i) references.append_next(set.references);
  if (!set.sources) return;
  SideLines sources(pairs.source);
  for (size_t i = 0; i < sources.size(); ++i) sources.append_next(*set.sources);
}

void CorpusWriter::write_attribute(const std::string& name, const std::string& value) {
  impl_->attributes.emplace_back(name, value);
}
void CorpusWriter::write_attribute(const std::string& name, int64_t value) {
  impl_->attributes.emplace_back(name, value);
}
void CorpusWriter::write_attribute(const std::string& name, double value) {
  impl_->attributes.emplace_back(name, value);
}

void CorpusWriter::commit() {
  if (impl_->in_part) throw std::logic_error("a corpus has not ended");
  Hdf5Writer writer(impl_->output, impl_->bytes(), FileDigest::kTree);
  impl_->write(writer);
  writer.commit();
  impl_->digest = writer.digest();
}

const std::string& CorpusWriter::digest() const {
  return impl_->digest;
}

}  // namespace ventris::data
