// Pipelines drawn at random from all pieces, over rows in memory and in files: the rows that come are those
// that a plain list would give, and a walk that is taken up anywhere, from its position as text and in data
// that was opened anew, goes on to the bit as the one that was never interrupted.
#include <algorithm>
#include <functional>
#include <map>
#include <random>

#include "ebb/base/error.hpp"
#include "ebb/base/memory/ledger.hpp"
#include "ebb/data/files/csv.hpp"
#include "ebb/data/files/file_rows.hpp"
#include "ebb/data/files/jsonl.hpp"
#include "ebb/io/array/npy.hpp"
#include "ebb/ops/binary.hpp"
#include "tests/io/folder.hpp"

namespace ebb {
namespace {

using Rows = std::vector<std::int32_t>;
constexpr int kRows = 61;

int tokens_of(int row) { return row * 5 % 13; }

std::string json_rows() {
  std::string text;
  for (int i = 0; i < kRows; ++i) {
    text += "{\"n\": " + std::to_string(i) + ", \"ids\": [";
    for (int k = 0; k < tokens_of(i); ++k) text += (k ? "," : "") + std::to_string(i * 100 + k);
    text += "], \"x\": [0.5, " + std::to_string(i) + "]}\n";
  }
  return text;
}

std::string csv_rows() {
  std::string text = "n,a,b\n";
  for (int i = 0; i < kRows; ++i)
    text += std::to_string(i) + "," + std::to_string(i * 0.25) + (i % 3 ? ",cat\n" : ",dog\n");
  return text;
}

// Every byte of a batch, with the names and shapes of its columns.
std::string bytes_of(const Batch& b) {
  std::string out;
  for (std::size_t k = 0; k < b.values().size(); ++k) {
    const Tensor& t = b.values()[k];
    out += b.names()[k] + " " + to_string(t.spec()) + " ";
    out.append(reinterpret_cast<const char*>(t.raw()), t.spec().bytes());
  }
  return out;
}

Rows rows_of(const Batch& b) {
  Rows out;
  const Tensor& n = b["n"];
  for (std::size_t i = 0; i < static_cast<std::size_t>(b.rows()); ++i)
    out.push_back(n.dtype() == DType::i32 ? n.data<std::int32_t>()[i]
                                          : static_cast<std::int32_t>(n.data<float>()[i]));
  return out;
}

// The settings that were drawn, as a function of data opened anew, as text, and what they do to a plain list.
struct Pipeline {
  std::string text;
  std::vector<std::function<Dataset(const Dataset&)>> pieces;
  Rows expected;  // in order, before any shuffle
  bool shuffled = false, drop_last = false, tokens = false, cut = false, mapped = false;

  void add(const std::string& what, std::function<Dataset(const Dataset&)> piece) {
    text += "." + what;
    pieces.push_back(std::move(piece));
  }
  Dataset of(Dataset data) const {
    for (const auto& piece : pieces) data = piece(data);
    return data;
  }
};

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}
  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(bound));
  }
  bool coin() { return below(2) == 1; }

  // `lists`: there is a column "ids" of lists.
  Pipeline pipeline(const Dataset& whole, bool lists) {
    Pipeline p;
    for (std::int32_t i = 0; i < kRows; ++i) p.expected.push_back(i);
    for (std::int64_t left = below(6); left > 0; --left) {
      switch (below(lists ? 9 : 7)) {
        case 0:
          part(p);
          break;
        case 1:
          filter(p);
          break;
        case 2:
          shard(p);
          break;
        case 3:
          repeat(p);
          break;
        case 4:
          split(p, whole);
          break;
        case 5:
          shuffle(p);
          break;
        case 6:
          map(p);
          break;
        default:
          pad(p);
      }
    }
    if (coin()) shuffle(p);
    batch(p, lists);
    if (coin()) prefetch(p);
    return p;
  }

 private:
  void part(Pipeline& p) {
    const auto size = static_cast<std::int64_t>(p.expected.size());
    const std::int64_t a = below(size + 1), b = a + below(size - a + 1);
    p.add("rows(" + std::to_string(a) + ", " + std::to_string(b) + ")",
          [=](const Dataset& d) { return d.rows(a, b); });
    p.expected = Rows(p.expected.begin() + a, p.expected.begin() + b);
  }
  void filter(Pipeline& p) {
    const std::int64_t of = 2 + below(3), not_this = below(of);
    const auto keep = [=](std::int32_t n) { return n % of != not_this; };
    p.add("filter(n % " + std::to_string(of) + " != " + std::to_string(not_this) + ")",
          [=](const Dataset& d) {
            return d.filter([=](const Batch& row) { return keep(rows_of(row)[0]); });
          });
    std::erase_if(p.expected, [&](std::int32_t n) { return !keep(n); });
  }
  void shard(Pipeline& p) {
    const std::int64_t count = 1 + below(4), index = below(count);
    p.add("shard(" + std::to_string(index) + ", " + std::to_string(count) + ")",
          [=](const Dataset& d) { return d.shard(index, count); });
    Rows mine;
    for (std::size_t i = static_cast<std::size_t>(index); i < p.expected.size();
         i += static_cast<std::size_t>(count))
      mine.push_back(p.expected[i]);
    p.expected = mine;
  }
  void repeat(Pipeline& p) {
    const std::int64_t times = 1 + below(3);
    p.add("repeat(" + std::to_string(times) + ")",
          [=](const Dataset& d) { return d.repeat(times); });
    const Rows once = p.expected;
    for (std::int64_t i = 1; i < times; ++i)
      p.expected.insert(p.expected.end(), once.begin(), once.end());
  }
  // Which rows are drawn only the split knows; that they are a split of what was there is checked.
  void split(Pipeline& p, const Dataset& whole) {
    const double fraction = static_cast<double>(below(11)) / 10;
    const auto seed = static_cast<std::uint64_t>(below(100));
    const bool train = coin();
    const Dataset before = p.of(whole);
    const auto [rest, held_out] = before.split(fraction, seed);
    Rows drawn = in_order(train ? rest : held_out), all = in_order(held_out),
         others = in_order(rest);
    EXPECT_EQ(all.size(), static_cast<std::size_t>(
                              std::llround(fraction * static_cast<double>(p.expected.size()))));
    all.insert(all.end(), others.begin(), others.end());
    Rows expected = p.expected;
    std::sort(all.begin(), all.end());
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(all, expected) << p.text;
    p.add("split(" + std::to_string(fraction) + ", " + std::to_string(seed) + ")." +
              (train ? "train" : "held_out"),
          [=](const Dataset& d) {
            const DatasetSplit s = d.split(fraction, seed);
            return train ? s.train : s.held_out;
          });
    p.expected = drawn;
  }
  static Rows in_order(const Dataset& d) { return d.size() ? rows_of(d.all()) : Rows{}; }

  void shuffle(Pipeline& p) {
    const auto seed = static_cast<std::uint64_t>(below(1000));
    p.shuffled = true;
    p.add("shuffle(" + std::to_string(seed) + ")",
          [=](const Dataset& d) { return d.shuffle(seed); });
  }
  void map(Pipeline& p) {
    const double by = static_cast<double>(1 + below(5));
    p.mapped = true;
    p.add("map(+ z)", [=](const Dataset& d) {
      return d.map([=](const Batch& b) {
        Names names = b.names();
        std::vector<Tensor> values = b.values();
        names.push_back("z" + std::to_string(names.size()));
        values.push_back(b["x"] * by);
        return Batch(std::make_shared<Names>(names), values);
      });
    });
  }
  void pad(Pipeline& p) {
    data::PadOptions options{.value = coin() ? 0.0 : -1.0};
    if (coin()) options.buckets = {3, 8, 12};
    if (options.buckets.empty() && below(3) == 0) options.buckets = {5}, options.cut = true;
    if (coin()) options.mask = "mask";
    if (coin()) options.lengths = "lengths";
    if (p.mapped) options.mask = options.lengths = {};  // a map has seen the columns there are
    p.cut = options.cut;
    p.add("pad(" + std::to_string(options.buckets.size()) + " buckets" +
              (options.cut ? ", cut" : "") + (options.mask.empty() ? "" : ", mask") +
              (options.lengths.empty() ? "" : ", lengths") + ")",
          [=](const Dataset& d) { return d.pad("ids", options); });
  }
  void batch(Pipeline& p, bool lists) {
    const BatchOptions options{.drop_last = below(3) == 0};
    p.drop_last = options.drop_last;
    p.tokens = lists && coin();
    const std::int64_t many = p.tokens ? 1 + below(60) : 1 + below(9);
    p.add((p.tokens ? "batch_tokens(" : "batch(") + std::to_string(many) +
              (p.drop_last ? ", drop_last)" : ")"),
          [=, tokens = p.tokens](const Dataset& d) {
            return tokens ? d.batch_tokens(many, options) : d.batch(many, options);
          });
  }
  void prefetch(Pipeline& p) {
    const int ahead = static_cast<int>(1 + below(3));
    p.add("prefetch(" + std::to_string(ahead) + ")",
          [=](const Dataset& d) { return d.prefetch(ahead); });
  }

  std::mt19937_64 random_;
};

class PipelinesTest : public test::InFolder {
 protected:
  PipelinesTest() {
    Tensor n = Tensor::arange(kRows, DType::i32),
           x = Tensor::arange(2 * kRows, DType::f32).viewed({kRows, 2});
    save_npy(path("n.npy"), n);
    save_npy(path("x.npy"), x);
    const std::string json = put("a.jsonl", json_rows()), csv = put("a.csv", csv_rows());
    const data::StoreOptions cached{false, path("cache")};
    open_["memory"] = [=] { return Dataset::of({{"n", n}, {"x", x}}); };
    open_["npy"] = [this] {
      return Dataset::of(
          {{"n", data::npy_rows(path("n.npy"))}, {"x", data::npy_rows(path("x.npy"))}});
    };
    open_["csv"] = [=] {
      const auto table = data::csv(csv, {.target = "n", .store = cached}).rows;
      return table.map([](const Batch& b) { return Batch{{"n", b["y"]}, {"x", b["x"]}}; });
    };
    open_["jsonl lists"] = [=] { return data::jsonl(json).rows; };
    open_["jsonl lists in the cache"] = [=] { return data::jsonl(json, {.store = cached}).rows; };
  }

  void check(const std::string& source, std::uint64_t seed) {
    const Dataset whole = open_[source]();
    Draw draw(seed);
    const Pipeline p = draw.pipeline(whole, source.starts_with("jsonl"));
    SCOPED_TRACE(source + p.text);
    const Dataset data = p.of(whole);
    ASSERT_EQ(data.size(), static_cast<std::int64_t>(p.expected.size()));
    if (data.size() == 0 || data.batches() == 0) {
      EXPECT_NE(test::error_of([&] { (void)data.walk(1); }).find("the dataset has"),
                std::string::npos);
      return;
    }
    check_rows(p, data);
    check_taken_up(p, source, data, draw);
  }

 private:
  // Two epochs have the rows they should.
  static void check_rows(const Pipeline& p, const Dataset& data) {
    Rows sorted = p.expected;
    std::sort(sorted.begin(), sorted.end());
    for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
      Rows seen;
      std::int64_t batches = 0;
      for (const Batch& b : data.epoch(epoch)) {
        const Rows some = rows_of(b);
        seen.insert(seen.end(), some.begin(), some.end());
        ++batches;
      }
      EXPECT_EQ(batches, data.batches());
      if (!p.shuffled && !p.tokens) {
        ASSERT_LE(seen.size(), p.expected.size());
        EXPECT_TRUE(std::equal(seen.begin(), seen.end(), p.expected.begin()));
      }
      std::sort(seen.begin(), seen.end());
      if (p.drop_last)
        EXPECT_TRUE(std::includes(sorted.begin(), sorted.end(), seen.begin(), seen.end()));
      else
        EXPECT_EQ(seen, sorted);
    }
  }

  void check_taken_up(const Pipeline& p, const std::string& source, const Dataset& data,
                      Draw& draw) {
    constexpr std::int64_t kEpochs = 3;
    std::vector<std::string> batches, at;
    auto walk = data.walk(kEpochs);
    at.push_back(to_string(walk.position()));
    while (const Batch* b = walk.next()) {
      batches.push_back(bytes_of(*b));
      at.push_back(to_string(walk.position()));
    }
    ASSERT_EQ(static_cast<std::int64_t>(batches.size()), kEpochs * data.batches());
    for (int times = 0; times < 4; ++times) {
      const auto k = static_cast<std::size_t>(draw.below(static_cast<std::int64_t>(at.size())));
      const int ahead = static_cast<int>(draw.below(3));
      const Dataset anew = p.of(open_[source]()).prefetch(ahead);
      auto rest = anew.walk(kEpochs, data::Position::parse(at[k]));
      EXPECT_EQ(to_string(rest.position()), at[k]);
      for (std::size_t i = k; i < batches.size(); ++i) {
        const Batch* b = rest.next();
        ASSERT_NE(b, nullptr) << at[k];
        ASSERT_EQ(bytes_of(*b), batches[i]) << "batch " << i << " from " << at[k];
        ASSERT_EQ(to_string(rest.position()), at[i + 1]);
      }
      EXPECT_EQ(rest.next(), nullptr);
    }
  }

 public:
  std::map<std::string, std::function<Dataset()>> open_;
};

// EBB_PIPELINES says how many of each source, EBB_PIPELINE_SEED where to begin.
TEST_F(PipelinesTest, GoOnWhereTheyWere) {
  const char* const many = std::getenv("EBB_PIPELINES");
  const char* const from = std::getenv("EBB_PIPELINE_SEED");
  const std::uint64_t count = many ? std::strtoull(many, nullptr, 10) : 40;
  const std::uint64_t first = from ? std::strtoull(from, nullptr, 10) : 1;
  for (std::uint64_t seed = first; seed < first + count && !HasFailure(); ++seed) {
    SCOPED_TRACE("EBB_PIPELINES=1 EBB_PIPELINE_SEED=" + std::to_string(seed));
    for (const auto& [source, open] : open_) check(source, seed);
  }
}

}  // namespace
}  // namespace ebb
