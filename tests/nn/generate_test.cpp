// Generation: reading on with a cache gives the bits of the whole text, for every kind of model; texts end
// and slide as they should; memory is counted and does not grow.
#include "ebb/nn/generate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "ebb/base/memory/budget.hpp"
#include "ebb/base/memory/memory_faults.hpp"
#include "ebb/exec/compile.hpp"
#include "ebb/nn/params.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/optim/optimizer.hpp"
#include "ebb/tape/tape.hpp"
#include "tests/error_of.hpp"
#include "tests/kernels/threads.hpp"

namespace ebb {
namespace {

using test::error_of;
using Ids = std::vector<std::int32_t>;
constexpr std::int64_t kVocabulary = 61;

nn::GptOptions small(nn::GptOptions o, std::int64_t context = 64) {
  o.vocabulary = kVocabulary;
  o.context = context;
  o.layers = 3;
  o.width = 48;
  o.heads = 4;
  if (o.kv_heads) o.kv_heads = 2;
  o.dropout = 0.1;  // never while text is read
  return o;
}

Ids some_ids(std::int64_t count) {
  Ids ids;
  for (std::int64_t i = 0; i < count; ++i)
    ids.push_back(static_cast<std::int32_t>((i * i + 7 * i + i / 5) % kVocabulary));
  return ids;
}

Tensor row(std::span<const std::int32_t> ids) {
  return Tensor::from(ids, {1, static_cast<std::int64_t>(ids.size())});
}

// Weights larger than those a model begins with, so that what it reads matters.
template <class Model>
Model livelier(Model model) {
  std::uint64_t stream = 0;
  nn::each_variable(model, [&](Variable& v) {
    if (v.spec().rank() == 2) v.assign(random::normal(v.shape(), 0, 0.25, 5, stream++));
  });
  return model;
}

struct Kind {
  const char* name;
  nn::GptOptions options;
};

std::vector<Kind> kinds() {
  using Gate = nn::GptOptions::Gate;
  const nn::GptOptions gpt2 = nn::GptOptions::gpt2(), llama = nn::GptOptions::llama();
  std::vector<Kind> all{{"gpt2", gpt2}, {"llama", llama}};
  all.push_back({"gelu", gpt2});
  all.back().options.gate = Gate::gelu;
  all.push_back({"untied, rms", gpt2});
  all.back().options.tied = false;
  all.back().options.norm = nn::GptOptions::Norm::rms;
  all.push_back({"tied llama, all key heads", llama});
  all.back().options.tied = true;
  all.back().options.kv_heads = 0;
  all.push_back({"window", gpt2});
  all.back().options.window = 5;
  all.push_back({"rotary window", llama});
  all.back().options.window = 70;
  return all;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.spec() == b.spec() && std::memcmp(a.raw(), b.raw(), a.spec().bytes()) == 0;
}

TEST(Generate, CachedStatesAreThoseOfTheWholeText) {
  const Ids ids = some_ids(700);
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    const nn::Gpt gpt = livelier(nn::Gpt(nn::Init(1), small(kind.options, 700)));
    const nn::Evaluation evaluation;
    const Tensor whole = gpt.states(row(ids)).viewed({700, 48});
    for (const std::int64_t first : {1, 100, 128}) {
      nn::KvCache cache = nn::kv_cache(gpt);
      if (kind.options.window) {
        EXPECT_LT(cache.bytes(), 3 * 2 * 400 * 48 * 4u);  // not of 700 positions
      }
      std::int64_t step = first;
      for (std::int64_t at = 0; at < 700;) {
        const std::int64_t n = std::min<std::int64_t>(step, 700 - at);
        const auto part =
            std::span(ids).subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(n));
        const Tensor h = gpt.states(row(part), cache).viewed({n, 48});
        ASSERT_TRUE(same_bits(h, whole.rows(at, at + n))) << "positions from " << at;
        at += n;
        step = step == first ? 1 : step == 1 ? 3 : first;
      }
      EXPECT_EQ(cache.length(), 700);
    }
  }
}

template <class Lm>
void check_recurrent(bool attention) {
  const Lm lm = livelier(Lm(nn::Init(1), {.vocabulary = kVocabulary,
                                          .embedding = 24,
                                          .hidden = 32,
                                          .dropout = 0.2,
                                          .attention = attention}));
  const Ids ids = some_ids(300);
  const nn::Evaluation evaluation;
  const Tensor whole = lm(row(ids)).viewed({300, kVocabulary});
  const auto reader = nn::reader(lm);
  std::size_t at = 0;
  for (const std::size_t n : {150, 1, 1, 2, 130, 1, 1, 14}) {
    reader->read(std::span(ids).subspan(at, n));
    at += n;
    const auto end = static_cast<std::int64_t>(at);
    EXPECT_TRUE(same_bits(reader->logits(), whole.rows(end - 1, end))) << end;
  }
  EXPECT_EQ(reader->length(), 300);
  reader->forget();
  EXPECT_NE(error_of([&] { reader->logits(); }).find("nothing was read yet"), std::string::npos);
  reader->read(std::span(ids).first(1));
  EXPECT_TRUE(same_bits(reader->logits(), whole.rows(0, 1)));
}

TEST(Generate, RecurrentReadersGiveTheLogitsOfTheWholeText) {
  for (const bool attention : {false, true}) {
    check_recurrent<nn::LstmLm>(attention);
    check_recurrent<nn::GruLm>(attention);
  }
}

// The likeliest token after a text that is read anew for every one of them.
template <class Model>
Ids greedy_by_rereading(const Model& model, Ids ids, std::int64_t count) {
  const nn::Evaluation evaluation;
  Ids made;
  for (; count > 0; --count) {
    const Tensor logits = model(row(ids));
    const auto last = logits.data<float>().last(static_cast<std::size_t>(kVocabulary));
    const auto id =
        static_cast<std::int32_t>(std::max_element(last.begin(), last.end()) - last.begin());
    made.push_back(id);
    ids.push_back(id);
  }
  return made;
}

template <class Model>
Ids generated(const Model& model, const Ids& prompt, const nn::GenerateOptions& options) {
  Ids made;
  for (const std::int32_t id : nn::generate(model, prompt, options)) made.push_back(id);
  return made;
}

TEST(Generate, GreedyIsWhatRereadingGives) {
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    const nn::Gpt gpt = livelier(nn::Gpt(nn::Init(2), small(kind.options)));
    EXPECT_EQ(generated(gpt, some_ids(9), {.tokens = 40, .temperature = 0}),
              greedy_by_rereading(gpt, some_ids(9), 40));
  }
  const nn::LstmLm lm(nn::Init(1), {.vocabulary = kVocabulary, .embedding = 24, .hidden = 32});
  EXPECT_EQ(generated(lm, some_ids(5), {.tokens = 30, .temperature = 0}),
            greedy_by_rereading(lm, some_ids(5), 30));
}

TEST(Generate, ATextIsAFunctionOfSeedAndOptionsAtAnyNumberOfThreads) {
  const nn::Gpt gpt = livelier(nn::Gpt(nn::Init(3), small(nn::GptOptions::llama(), 200)));
  const nn::GenerateOptions options{
      .tokens = 150, .temperature = 0.9, .top_k = 20, .top_p = 0.95, .seed = 7};
  const Ids once = generated(gpt, some_ids(3), options);
  EXPECT_EQ(once.size(), 150u);
  for (const int threads : {1, 2, 3}) {
    const kernels::Threads set(threads);
    EXPECT_EQ(generated(gpt, some_ids(3), options), once) << threads;
  }
  nn::GenerateOptions other = options;
  other.seed = 8;
  EXPECT_NE(generated(gpt, some_ids(3), other), once);
  other = options;
  other.top_k = 1;
  EXPECT_EQ(generated(gpt, some_ids(3), other),
            generated(gpt, some_ids(3), {.tokens = 150, .temperature = 0}));
}

TEST(Generate, EndsWhereItIsTold) {
  const nn::Gpt gpt = livelier(nn::Gpt(nn::Init(3), small(nn::GptOptions::gpt2(), 32)));
  nn::Generation text = nn::generate(gpt, some_ids(10), {.tokens = 1000});
  int made = 0;
  while (text.next()) ++made;
  EXPECT_EQ(made, 23);  // the last of them is never read: it needs no position
  EXPECT_EQ(text.ended(), nn::Generation::End::context);
  EXPECT_EQ(text.next(), std::nullopt);

  const Ids all = generated(gpt, some_ids(4), {.tokens = 12});
  nn::Generation stopped = nn::generate(gpt, some_ids(4), {.tokens = 12, .stop = {all[5]}});
  Ids some;
  for (const std::int32_t id : stopped) some.push_back(id);
  EXPECT_EQ(stopped.ended(), nn::Generation::End::stop);
  EXPECT_EQ(some, Ids(all.begin(), std::find(all.begin(), all.end(), all[5])));

  nn::Generation none = nn::generate(gpt, some_ids(4), {.tokens = 0});
  EXPECT_EQ(none.next(), std::nullopt);
  EXPECT_EQ(none.ended(), nn::Generation::End::tokens);
}

// When the context is full, the newer half goes on as a text of its own.
TEST(Generate, SlidesOverTheEndOfTheContext) {
  const nn::Gpt gpt = livelier(nn::Gpt(nn::Init(3), small(nn::GptOptions::gpt2(), 32)));
  const Ids prompt = some_ids(10);
  const nn::GenerateOptions options{
      .tokens = 80, .temperature = 0, .when_full = nn::WhenFull::slide};
  const Ids made = generated(gpt, prompt, options);
  ASSERT_EQ(made.size(), 80u);
  Ids text = prompt, expected;
  while (expected.size() < 80) {
    if (text.size() > 32) text.erase(text.begin(), text.end() - 16);
    expected.push_back(greedy_by_rereading(gpt, text, 1)[0]);
    text.push_back(expected.back());
  }
  EXPECT_EQ(made, expected);

  Ids newer(16);
  const Ids many = some_ids(100);
  std::copy(many.end() - 16, many.end(), newer.begin());
  nn::GenerateOptions few = options;
  few.tokens = 10;
  EXPECT_EQ(generated(gpt, many, few), generated(gpt, newer, few));
}

TEST(Generate, MemoryIsTakenAtOnceAndDoesNotGrow) {
  const nn::Gpt gpt(nn::Init(1), small(nn::GptOptions::llama(), 512));
  for (const Variable& v : variables(const_cast<nn::Gpt&>(gpt))) v.value();
  const Budget budget(128_MiB);
  const std::uint64_t before = ledger::of(Category::workspace).live;
  nn::Generation text = nn::generate(gpt, some_ids(300), {.tokens = 200, .top_k = 5});
  const std::uint64_t cache = 3 * 2 * 512 * 24 * 4;  // layers, keys and values, positions, width
  const std::uint64_t held = ledger::of(Category::workspace).live - before;
  EXPECT_GE(held, cache);
  EXPECT_LE(held, cache + kVocabulary * 4 + 8192);
  const std::uint64_t all = ledger::total().live;
  text.next();
  ledger::reset_peak();
  for (int i = 0; i < 20; ++i) text.next();
  const std::uint64_t early = ledger::total().peak;
  ledger::reset_peak();
  while (text.next()) {
  }
  EXPECT_EQ(ledger::total().peak, early);
  EXPECT_LE(ledger::total().live, all + 512);  // the states of the last position
}

TEST(Generate, ABudgetThatIsTooSmallRefusesBeforeAnythingIsRead) {
  const nn::Gpt gpt(nn::Init(1), small(nn::GptOptions::llama(), 1 << 22));
  const Budget budget(256_MiB);
  EXPECT_THROW(nn::generate(gpt, some_ids(3), {}), OutOfMemory);
  EXPECT_EQ(generated(gpt, some_ids(3), {.tokens = 5, .context = 64}).size(), 5u);
}

// Whatever fails, asking again goes on where it was.
template <class Model>
void check_failures(const Model& model) {
  const Ids prompt = some_ids(150);
  const nn::GenerateOptions options{.tokens = 3, .top_k = 9, .when_full = nn::WhenFull::slide};
  const Ids expected = generated(model, prompt, options);
  bool fired = true;
  for (std::uint64_t n = 1; fired; n += n < 40 ? 1 : 7) {
    nn::Generation text = nn::generate(model, prompt, options);
    Ids made;
    const memory::FailTake fail(n);
    while (text.ended() == nn::Generation::End::none) {
      try {
        if (const auto id = text.next()) made.push_back(*id);
      } catch (const OutOfMemory&) {
      }
    }
    fired = fail.fired();
    ASSERT_EQ(made, expected) << "take " << n;
  }
}

TEST(Generate, GoesOnAfterAFailure) {
  check_failures(livelier(nn::Gpt(nn::Init(3), small(nn::GptOptions::gpt2(), 151))));
  for (const bool attention : {false, true})
    check_failures(livelier(nn::LstmLm(
        nn::Init(1),
        {.vocabulary = kVocabulary, .embedding = 8, .hidden = 16, .attention = attention})));
}

TEST(Generate, ModelsOfEveryFloat) {
  for (const DType dtype : {DType::f64, DType::bf16, DType::f16})
    for (const nn::GptOptions& options : {nn::GptOptions::gpt2(), nn::GptOptions::llama()}) {
      SCOPED_TRACE(name(dtype));
      const nn::Gpt gpt(nn::Init(1, dtype), small(options));
      const nn::Evaluation evaluation;
      const Ids ids = some_ids(9);
      nn::KvCache cache = nn::kv_cache(gpt);
      gpt.states(row(std::span(ids).first(8)), cache);
      const Tensor last = gpt.states(row(std::span(ids).last(1)), cache).viewed({1, 48});
      EXPECT_TRUE(same_bits(last, gpt.states(row(ids)).viewed({9, 48}).rows(8, 9)));
      EXPECT_EQ(generated(gpt, ids, {.tokens = 9}).size(), 9u);
    }
}

// In what a training that just fits leaves between its steps.
TEST(Generate, BorrowsFromCompiledSteps) {
  const nn::Gpt gpt(nn::Init(1), small(nn::GptOptions::gpt2(), 256));
  optim::AdamW adam(params(const_cast<nn::Gpt&>(gpt)), {.lr = 1e-3});
  const BatchSpec spec{{"x", {{16, 256}, DType::i32}}, {"y", {{16, 256}, DType::i32}}};
  const auto train = [&](const Batch& b) { return adam.minimize(gpt.loss(b["x"], b["y"])); };
  const std::uint64_t least = compile(spec, {.memory = 1_GiB}, train).plan().minimum;
  const std::uint64_t budget = least + (6u << 20);
  auto step = compile(spec, {.memory = ByteSize{budget}}, train);
  const Tensor x = Tensor::zeros({16, 256}, DType::i32);
  for (int i = 0; i < 3; ++i) {
    step({{"x", x}, {"y", x}});
    const memory::Borrowing between;
    EXPECT_EQ(generated(gpt, some_ids(200), {.tokens = 20}).size(), 20u);
  }
}

TEST(Generate, NoTapeSeesIt) {
  const nn::Gpt gpt(nn::Init(1), small(nn::GptOptions::gpt2()));
  Tape tape;
  const std::uint64_t before = ledger::of(Category::activations).live;
  EXPECT_EQ(generated(gpt, some_ids(3), {.tokens = 5}).size(), 5u);
  EXPECT_EQ(ledger::of(Category::activations).live, before);
  EXPECT_TRUE(nn::training());
}

TEST(Generate, Mistakes) {
  const nn::Gpt gpt(nn::Init(1), small(nn::GptOptions::gpt2(), 32));
  const auto error = [&](const Ids& prompt, const nn::GenerateOptions& options) {
    return error_of([&] { generated(gpt, prompt, options); });
  };
  EXPECT_EQ(error({}, {}), "generate: the prompt is empty; give at least one token");
  EXPECT_NE(error(some_ids(33), {}).find("the prompt has 33 tokens, the context 32"),
            std::string::npos);
  EXPECT_NE(error(some_ids(3), {.tokens = -1}).find("-1 tokens"), std::string::npos);
  EXPECT_NE(error(some_ids(3), {.context = 33}).find("the model knows 32"), std::string::npos);
  EXPECT_NE(error(some_ids(3), {.context = -1}).find("a context of -1"), std::string::npos);
  EXPECT_NE(error({999}, {}).find("999"), std::string::npos);
  nn::GptOptions both_ways = small(nn::GptOptions::gpt2());
  both_ways.causal = false;
  const nn::Gpt encoder(nn::Init(1), both_ways);
  EXPECT_NE(error_of([&] { generated(encoder, {1}, {}); }).find("non-causal"), std::string::npos);
  nn::KvCache cache = nn::kv_cache(gpt);
  EXPECT_NE(error_of([&] {
              gpt.states(Tensor::zeros({2, 3}, DType::i32), cache);
            }).find("one text at a time"),
            std::string::npos);
}

}  // namespace
}  // namespace ebb
