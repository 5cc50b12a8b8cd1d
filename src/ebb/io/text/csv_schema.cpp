// The pass that finds out what the columns of a csv file are.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_set>

#include "ebb/base/error.hpp"
#include "ebb/io/bytes/refuse.hpp"
#include "ebb/io/text/csv_table.hpp"

namespace ebb::io {
namespace {

constexpr std::size_t kLongestCategory = 1000;
constexpr std::size_t kMostWords = 200'000;  // of all columns: they are kept outside of the Ledger

struct Hash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>()(text);
  }
};
using Words = std::unordered_set<std::string, Hash, std::equal_to<>>;

// Mean and squared deviations, by block: sums from a value near the mean, put together in order.
struct Moments {
  std::int64_t count = 0;
  double shift = 0, sum = 0, squares = 0;  // of value - shift
  float least = std::numeric_limits<float>::infinity(), largest = -least;

  void add(float value) {
    if (count++ == 0) shift = value;
    const double d = value - shift;
    sum += d;
    squares += d * d;
    least = std::min(least, value);
    largest = std::max(largest, value);
  }
};

struct Gathered {
  std::int64_t count = 0;
  double mean = 0, squares = 0;  // of value - mean
  float least = std::numeric_limits<float>::infinity(), largest = -least;

  void add(const Moments& m) {
    if (m.count == 0) return;
    const auto n = static_cast<double>(m.count), all = n + static_cast<double>(count);
    const double other = m.shift + m.sum / n, apart = other - mean;
    squares += std::max(0.0, m.squares - m.sum * m.sum / n) +
               apart * apart * static_cast<double>(count) * n / all;
    mean += apart * n / all;
    count += m.count;
    least = std::min(least, m.least);
    largest = std::max(largest, m.largest);
  }
};

struct Column {  // of one block
  Moments numbers;
  std::int64_t missing = 0, texts = 0;
  Words words;  // what was no number, or all where the column is said to be categories
  bool too_many = false;
};

struct Slot {
  std::vector<Column> columns;
  std::int64_t rows = 0;
};

class Inference {
 public:
  Inference(const std::string& path, const CsvOptions& options)
      : table_(path, options), kinds_(table_.names.size()), known_(table_.names.size()) {
    for (std::size_t i = 0; i < known_.size(); ++i) {
      const auto said = options.kinds.find(table_.names[i]);
      known_[i] = said != options.kinds.end();
      kinds_[i] = known_[i] ? said->second : ColumnKind::number;
    }
  }

  CsvSchema run() {
    // A column in which text follows numbers is one of categories, the numbers among them: they are
    // gathered by another pass.
    while (!pass()) {
    }
    CsvSchema out{{}, rows_};
    for (std::size_t i = 0; i < kinds_.size(); ++i) {
      const Gathered& g = gathered_[i];
      CsvColumn c{table_.names[i], kinds_[i]};
      c.missing = missing_[i];
      c.count = kinds_[i] == ColumnKind::ignored ? 0 : rows_ - c.missing;
      if (kinds_[i] == ColumnKind::number && g.count > 0) {
        c.mean = g.mean;
        c.deviation = std::sqrt(g.squares / static_cast<double>(g.count));
        c.least = g.least;
        c.largest = g.largest;
      }
      if (kinds_[i] == ColumnKind::category) c.categories = sorted(words_[i]);
      out.columns.push_back(std::move(c));
    }
    return out;
  }

 private:
  // False: it has to be done again, with some kinds known that were not.
  bool pass() {
    const std::size_t columns = kinds_.size();
    rows_ = 0;
    gathered_.assign(columns, {});
    words_.assign(columns, {});
    missing_.assign(columns, 0);
    texts_.assign(columns, 0);
    TextBlocks blocks(table_.path, table_.blocks());
    std::vector<Slot> slots(blocks.slots());
    blocks.each([&](std::size_t i, const TextBlock& b) { parse(b, slots[i]); },
                [&](std::size_t i) { take(slots[i]); });
    bool settled = true;
    for (std::size_t i = 0; i < columns; ++i) {
      if (known_[i] || texts_[i] == 0) continue;
      known_[i] = true;
      kinds_[i] = ColumnKind::category;
      settled = settled && gathered_[i].count == 0;
    }
    return settled;
  }

  void parse(TextBlock block, Slot& slot) const {
    check_text(table_.path, block);
    slot.rows = 0;
    slot.columns.assign(kinds_.size(), {});
    for (CsvCursor cursor = table_.rows(block); cursor.next_record(); ++slot.rows) {
      for (std::size_t i = 0; i < kinds_.size(); ++i) {
        table_.check_more(cursor, block, i);
        const std::size_t at = cursor.offset();
        float value = 0;
        if (kinds_[i] == ColumnKind::number) {
          const NumberState state = cursor.number(value);
          if (state == NumberState::good) {
            slot.columns[i].numbers.add(value);
            continue;
          }
          if (state == NumberState::too_large) refuse_large(block, at, i);
        }
        text(block, at, i, table_.field(cursor, block, i), slot.columns[i]);
      }
      table_.check_ended(cursor, block);
    }
  }

  [[noreturn]] void refuse_large(const TextBlock& block, std::size_t at, std::size_t i) const {
    table_.refuse_field(block, at, i, "a number beyond what f32 holds, 3.4e38");
  }

  void text(const TextBlock& block, std::size_t at, std::size_t i, std::string_view field,
            Column& column) const {
    if (kinds_[i] == ColumnKind::ignored) return;
    if (table_.is_missing(field)) {
      ++column.missing;
      return;
    }
    if (kinds_[i] == ColumnKind::number) {  // it may be a number in quotes
      const Number n = parse_number(field.data(), field.data() + field.size());
      if (n.state != NumberState::none && n.end == field.data() + field.size()) {
        if (n.state == NumberState::too_large) refuse_large(block, at, i);
        return column.numbers.add(n.value);
      }
      if (known_[i])
        table_.refuse_field(
            block, at, i,
            fmt::format("\"{}\" is no number; expected one, or a word of .missing", shown(field)));
    }
    ++column.texts;
    if (field.size() > kLongestCategory)
      table_.refuse_field(
          block, at, i,
          fmt::format("a text of {} bytes, which is no category; leave the column out "
                      "(ColumnKind::ignored)",
                      field.size()));
    if (column.words.contains(field)) return;
    if (static_cast<std::int64_t>(column.words.size()) < table_.options.most_categories)
      column.words.emplace(field);
    else
      column.too_many = true;
  }

  void take(Slot& slot) {
    rows_ += slot.rows;
    std::size_t all = 0;
    for (std::size_t i = 0; i < kinds_.size(); ++i) {
      Column& c = slot.columns[i];
      gathered_[i].add(c.numbers);
      missing_[i] += c.missing;
      texts_[i] += c.texts;
      words_[i].merge(c.words);
      if (c.too_many ||
          static_cast<std::int64_t>(words_[i].size()) > table_.options.most_categories)
        refuse(table_.path,
               fmt::format("column \"{}\" has more than {} different texts; leave it out "
                           "(ColumnKind::ignored), or allow more (.most_categories)",
                           shown(table_.names[i]), table_.options.most_categories));
      all += words_[i].size();
    }
    if (all > kMostWords)
      refuse(table_.path,
             fmt::format("its columns have more than {} different texts together; leave "
                         "some out (ColumnKind::ignored)",
                         kMostWords));
  }

  // Categories in the order of numbers where all are, else in that of their bytes.
  static std::vector<std::string> sorted(const Words& words) {
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

  CsvTable table_;
  std::vector<ColumnKind> kinds_;
  std::vector<bool> known_;  // the kind: said, or found
  std::int64_t rows_ = 0;
  std::vector<Gathered> gathered_;
  std::vector<Words> words_;
  std::vector<std::int64_t> missing_, texts_;
};

}  // namespace

CsvSchema read_csv_schema(const std::string& path, const CsvOptions& options) {
  return Inference(path, options).run();
}

std::vector<std::string> read_csv_names(const std::string& path, const CsvOptions& options) {
  return CsvTable(path, options).names;
}

}  // namespace ebb::io
