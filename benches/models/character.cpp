#include "models/character.hpp"

#include <array>
#include <cctype>
#include <vector>

namespace ebb::zoo {
namespace {

class Language {
 public:
  Language() {
    for (std::vector<std::string>* words : {&nouns_, &verbs_, &adjectives_, &adverbs_})
      for (int i = 0; i < kWords; ++i) words->push_back(word());
  }

  std::string paragraph() {
    std::string text;
    for (int left = 2 + below(6); left > 0; --left) text += sentence() + (left > 1 ? " " : "\n\n");
    return text;
  }

 private:
  static constexpr int kWords = 400;  // of each kind

  std::uint64_t next() {  // splitmix64
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
  int below(int n) { return static_cast<int>(next() % static_cast<std::uint64_t>(n)); }
  bool chance(int percent) { return below(100) < percent; }

  std::string word() {
    static constexpr std::array kStarts{"b", "d", "f", "g", "k",  "l",  "m", "n",
                                        "p", "r", "s", "t", "st", "tr", "v", "sh"};
    static constexpr std::array kMiddles{"a", "e", "i", "o", "u", "ai", "ou"};
    static constexpr std::array kEnds{"", "", "n", "r", "l", "s", "nd", "th"};
    const auto one_of = [this](const auto& all) {
      return all[static_cast<std::size_t>(below(static_cast<int>(all.size())))];
    };
    std::string made;
    for (int left = 1 + below(3); left > 0; --left) {
      made += one_of(kStarts);
      made += one_of(kMiddles);
    }
    return made + one_of(kEnds);
  }

  // The more frequent the earlier; the order is turned by `from`.
  const std::string& some(const std::vector<std::string>& words, int from = 0) {
    int rank = below(kWords);
    for (int times = 0; times < 2; ++times) rank = rank * below(kWords) / kWords;
    return words[static_cast<std::size_t>((rank + from) % kWords)];
  }

  std::string noun_phrase(int from) {
    std::string text = chance(60) ? "the " : chance(50) ? "an ol " : "so ";
    if (chance(35)) text += some(adjectives_) + " ";
    text += some(nouns_, from);
    if (chance(20)) text += "es";
    if (chance(15)) text += " of " + noun_phrase(from + 7);
    return text;
  }

  std::string clause() {
    const int verb = below(kWords) * below(kWords) / kWords;
    std::string text = noun_phrase(0) + " " + verbs_[static_cast<std::size_t>(verb)];
    text += chance(30) ? "ed " : "s ";
    text += noun_phrase(verb / 4 * 16);
    if (chance(25)) text += " " + some(adverbs_) + "ly";
    return text;
  }

  std::string sentence() {
    std::string text = clause();
    while (chance(30)) {
      text += chance(50) ? ", and " : ", for ";
      text += clause();
    }
    text[0] = static_cast<char>(std::toupper(text[0]));
    return text + (chance(12) ? "?" : ".");
  }

  std::uint64_t state_ = 1;
  std::vector<std::string> nouns_, verbs_, adjectives_, adverbs_;
};

}  // namespace

std::string invented_text(std::size_t bytes) {
  Language language;
  std::string text;
  while (text.size() < bytes) text += language.paragraph();
  text.resize(bytes);
  return text;
}

Characters::Characters(const std::string& all)
    : text(data::text(all, {.window = kWindow})),
      batches(text.windows.batch(kBatch, {.drop_last = true})) {}

nn::Gpt Characters::model(DType dtype) const {
  nn::GptOptions o;
  o.vocabulary = text.vocabulary.size();
  o.context = kWindow;
  o.layers = 2;
  o.width = 128;
  o.heads = 4;
  o.tied = false;
  return nn::Gpt(nn::Init(7, dtype), o);
}

}  // namespace ebb::zoo
