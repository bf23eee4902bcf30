#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

// Private to data/.

namespace ventris::data {

/// The vocabulary of a SentencePiece model as a search tree over the bytes of the pieces that text can
/// become: normal pieces and those that users define.
class SubwordPieces {
 public:
  enum class Model { kUnigram = 1, kBpe = 2, kWord = 3, kCharacters = 4 };  // as in the file

  /// Requires bytes that check_sentencepiece_model() accepts.
  explicit SubwordPieces(std::string_view model);

  Model model() const { return model_; }
  bool has_unused() const { return has_unused_; }  // pieces that the model must not produce
  bool has_user_defined() const { return has_user_defined_; }
  /// Whether no piece has a U+2581 but at its beginning, where words begin.
  bool ends_at_words() const { return ends_at_words_; }
  /// Whether unknown characters become tokens of their bytes.
  bool falls_back_to_bytes() const { return falls_back_to_bytes_; }

  float score(int32_t id) const { return scores_[static_cast<size_t>(id)]; }
  bool is_user_defined(int32_t id) const { return is_user_defined_[static_cast<size_t>(id)]; }
  /// Of the normal pieces.
  float lowest_score() const { return lowest_score_; }

  /// Calls each(id, bytes) for every piece that the text begins with, the shortest first.
  template <typename Each>
  void for_each_prefix(std::string_view text, Each&& each) const {
    size_t node = 0;
    for (size_t bytes = 0;; ++bytes) {
      if (bytes > 0 && nodes_[node].id >= 0) each(nodes_[node].id, bytes);
      if (bytes == text.size()) return;
      const Node& at = nodes_[node];
      const size_t child = std::string_view(labels_).substr(at.first_child, at.children).find(text[bytes]);
      if (child == std::string_view::npos) return;
      node = at.first_child + child;
    }
  }

 private:
  struct Node {
    int32_t id = -1;  // of the piece that ends here
    uint32_t first_child = 0;
    uint32_t children = 0;
  };
  struct Piece {
    std::string_view text;
    int32_t id;
  };
  void read_trainer(std::string_view message);
  void read_piece(std::string_view message, std::vector<Piece>& pieces);
  void build_tree(std::vector<Piece> pieces);

  Model model_ = Model::kUnigram;
  bool has_unused_ = false;
  bool has_user_defined_ = false;
  bool ends_at_words_ = true;
  bool falls_back_to_bytes_ = false;
  std::vector<float> scores_;
  std::vector<bool> is_user_defined_;
  float lowest_score_ = std::numeric_limits<float>::max();
  std::vector<Node> nodes_;
  std::string labels_;  // of each node the byte that leads to it
};

}  // namespace ventris::data
