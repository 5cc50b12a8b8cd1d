#include "ebb/io/text/column_stats.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "ebb/io/bytes/refuse.hpp"
#include "ebb/io/text/number.hpp"
#include "ebb/io/text/text_blocks.hpp"

namespace ebb::io {
namespace {

constexpr std::size_t kMostWords = 200'000;  // of all columns: they are kept outside of the Ledger

// Categories in the order of numbers where all are, else in that of their bytes.
std::vector<std::string> sorted(const Words& words) {
  std::vector<std::string> all(words.begin(), words.end());
  std::sort(all.begin(), all.end());
  std::vector<std::pair<float, std::string>> numbers;
  for (const std::string& word : all) {
    const Number n = parse_number(word.data(), word.data() + word.size());
    if (n.state != NumberState::good || n.end != word.data() + word.size()) return all;
    numbers.emplace_back(n.value, word);
  }
  std::stable_sort(numbers.begin(), numbers.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = std::move(numbers[i].second);
  return all;
}

}  // namespace

void ColumnStats::take(BlockColumns& block, const std::string& path, std::int64_t most_categories) {
  rows_ += block.rows;
  std::size_t words = 0;
  for (std::size_t i = 0; i < all_.size(); ++i) {
    BlockColumn& from = block.columns[i];
    Column& to = all_[i];
    to.numbers.add(from.numbers);
    to.missing += from.missing;
    if (to.texts == 0 && from.texts > 0) {
      to.path = path;
      to.first_text = from.first_text;
      to.first_at = from.first_at;
    }
    to.texts += from.texts;
    to.words.merge(from.words);
    if (from.too_many || static_cast<std::int64_t>(to.words.size()) > most_categories)
      refuse(path, fmt::format("column \"{}\" has more than {} different texts{}; leave it out "
                               "(data.ignore)",
                               shown(names_[i]), most_categories, to.hint));
    words += to.words.size();
  }
  if (words > kMostWords)
    refuse(path, fmt::format("its columns have more than {} different texts together; leave "
                             "some out (data.ignore)",
                             kMostWords));
}

CsvMixed ColumnStats::mixed(std::size_t i) const {
  const Column& c = all_[i];
  return {i, c.numbers.count, c.texts, c.path, c.first_text, line_of(c.path, c.first_at)};
}

CsvSchema ColumnStats::schema(const std::vector<ColumnKind>& kinds) const {
  CsvSchema out{{}, rows_};
  for (std::size_t i = 0; i < all_.size(); ++i) {
    const Gathered& g = all_[i].numbers;
    CsvColumn c{names_[i], kinds[i]};
    c.missing = all_[i].missing;
    c.count = kinds[i] == ColumnKind::ignored ? 0 : rows_ - c.missing;
    if (kinds[i] == ColumnKind::number && g.count > 0) {
      c.mean = g.mean;
      c.deviation = std::sqrt(g.squares / static_cast<double>(g.count));
      c.least = g.least;
      c.largest = g.largest;
    }
    if (kinds[i] == ColumnKind::category) c.categories = sorted(all_[i].words);
    out.columns.push_back(std::move(c));
  }
  return out;
}

}  // namespace ebb::io
