// The presets, small: names people know, one step eager and compiled in the same bits, also in parts
// and in the smallest budget, and errors.
#include <gtest/gtest.h>

#include "ebb/exec/compile.hpp"
#include "ebb/nn/convnets.hpp"
#include "ebb/nn/params.hpp"
#include "ebb/nn/recurrent_models.hpp"
#include "ebb/nn/transformer.hpp"
#include "ebb/ops/cast.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/ops/shape.hpp"
#include "ebb/ops/slice.hpp"
#include "ebb/optim/optimizer.hpp"
#include "ebb/tape/tape.hpp"
#include "tests/bytes.hpp"
#include "tests/error_of.hpp"

namespace ebb {
namespace {

constexpr std::int64_t kRows = 4, kLength = 12, kVocabulary = 17;

nn::GptOptions small_gpt(nn::GptOptions o) {
  o.vocabulary = kVocabulary;
  o.context = 16;
  o.layers = 2;
  o.width = 32;
  o.heads = 4;
  if (o.kv_heads) o.kv_heads = 2;
  o.dropout = 0.1;
  return o;
}

nn::EncoderOptions small_encoder() {
  return {.vocabulary = kVocabulary,
          .context = 16,
          .classes = 5,
          .layers = 2,
          .width = 32,
          .heads = 4,
          .dropout = 0.1};
}

Tensor ids(const Shape& shape, std::int64_t below) {
  return cast(random::uniform(shape, 0, static_cast<double>(below) - 0.01, 1, 2), DType::i32);
}

struct Options {
  bool eager = false;
  CompileOptions compile{};
};

// The weights after three steps.
template <class Make, class LossOf>
test::Bytes trained(const Make& make, const LossOf& loss_of, const Batch& batch, const Options& how,
                    plan::Plan* plan = nullptr) {
  random::seed(3);
  auto model = make();
  optim::Adam adam(params(model), {.lr = 1e-2});
  const auto fn = [&](const Batch& b) { return adam.minimize(loss_of(model, b)); };
  if (how.eager) {
    for (int i = 0; i < 3; ++i) {
      Tape tape;
      fn(batch);
    }
  } else {
    std::vector<Spec> specs;
    for (const Tensor& t : batch.values()) specs.push_back(t.spec());
    auto step = compile(BatchSpec(std::make_shared<Names>(batch.names()), specs), how.compile, fn);
    for (int i = 0; i < 3; ++i) step(batch);
    if (plan) {
      *plan = step.plan();
      plan->programs.clear();  // which hold the variables
    }
  }
  return test::bytes(variables(model));
}

template <class Make, class LossOf>
void same_bits_everywhere(const Make& make, const LossOf& loss_of, const Batch& batch, bool parts) {
  const auto eager = trained(make, loss_of, batch, {.eager = true});
  plan::Plan plan;
  Options tight;
  tight.compile.allow = Allow::same_bits;
  EXPECT_TRUE(trained(make, loss_of, batch, tight, &plan) == eager) << "compiled";
  tight.compile.memory.bytes = plan.minimum;
  EXPECT_TRUE(trained(make, loss_of, batch, tight, &plan) == eager)
      << "in the smallest budget: " << plan.chosen.text();
  if (!parts) return;
  Options split;
  split.compile.micro_batch = 3;
  EXPECT_TRUE(trained(make, loss_of, batch, split, &plan) == eager) << "in parts of 3 rows and 1";
  EXPECT_TRUE(plan.split());
}

const auto classify = [](const auto& model, const Batch& b) {
  return sparse_cross_entropy(model(b["x"]), b["y"]);
};
const auto predict_next = [](const auto& model, const Batch& b) {
  return model.loss(b["x"], b["y"]);
};

Batch text() {
  return {{"x", ids({kRows, kLength}, kVocabulary)}, {"y", ids({kRows, kLength}, kVocabulary)}};
}
Batch images() {
  return {{"x", random::normal({kRows, 8, 8, 3}, 0, 1, 1, 1)}, {"y", ids({kRows}, 5)}};
}
Batch sequences() {
  return {{"x", random::normal({kRows, kLength, 6}, 0, 1, 1, 1)}, {"y", ids({kRows}, 5)}};
}

TEST(Presets, NamesPeopleKnow) {
  nn::Gpt gpt(nn::Init(1), small_gpt(nn::GptOptions::gpt2()));
  std::vector<std::string> names;
  for (const Variable& v : params(gpt)) names.push_back(v.name());
  const auto has = [&](const char* name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  EXPECT_TRUE(has("tokens.weight"));
  EXPECT_TRUE(has("positions.weight"));
  EXPECT_TRUE(has("layers.0.attn.q_proj.weight"));
  EXPECT_TRUE(has("layers.1.attn.o_proj.bias"));
  EXPECT_TRUE(has("layers.1.mlp.down_proj.weight"));
  EXPECT_TRUE(has("layers.0.attn_norm.bias"));
  EXPECT_TRUE(has("norm.weight"));
  EXPECT_FALSE(has("head.weight")) << "the head is tied";
  EXPECT_EQ(names.size(), 2u + 2 * 16 + 2);

  nn::Gpt llama(nn::Init(1), small_gpt(nn::GptOptions::llama()));
  names.clear();
  for (const Variable& v : params(llama)) names.push_back(v.name());
  EXPECT_TRUE(has("layers.0.mlp.gate_proj.weight"));
  EXPECT_TRUE(has("head.weight"));
  EXPECT_FALSE(has("positions.weight"));
  EXPECT_FALSE(has("layers.0.attn.q_proj.bias"));
  EXPECT_EQ(llama.layers[0].attn.k_proj.weight.spec().shape, (Shape{16, 32})) << "2 heads of keys";
}

TEST(Presets, Gpt2HasTheKnownNumberOfParameters) {
  nn::Gpt gpt(nn::Init(1), nn::GptOptions::gpt2());
  std::int64_t count = 0;
  for (const Variable& v : params(gpt)) count += v.spec().size();
  EXPECT_EQ(count, 124'475'904) << "GPT-2 small with a vocabulary of 50,304";
}

TEST(Presets, LogitsAndLossAgree) {
  nn::Gpt gpt(nn::Init(1), small_gpt(nn::GptOptions::gpt2()));
  const nn::Evaluation evaluation;
  const Batch b = text();
  const Loss tiled = gpt.loss(b["x"], b["y"]);
  const Loss whole = sparse_cross_entropy(gpt(b["x"]), b["y"]);
  EXPECT_EQ(tiled.count.item(), whole.count.item());
  EXPECT_NEAR(tiled.sum.item(), whole.sum.item(), 1e-5 * whole.sum.item());
}

// The head of this one is its embedding: two uses of one weight, so a batch in parts is equal up to
// rounding only.
TEST(Presets, Gpt2SameBits) {
  same_bits_everywhere([] { return nn::Gpt(nn::Init(1), small_gpt(nn::GptOptions::gpt2())); },
                       predict_next, text(), false);
}
TEST(Presets, Gpt2WithSmoothLabelsSameBits) {
  const auto smooth = [](const auto& model, const Batch& b) {
    return model.loss(b["x"], b["y"], {.ignore_index = 3, .label_smoothing = 0.1});
  };
  const auto make = [] { return nn::Gpt(nn::Init(1), small_gpt(nn::GptOptions::gpt2())); };
  same_bits_everywhere(make, smooth, text(), false);
  EXPECT_FALSE(trained(make, smooth, text(), {.eager = true}) ==
               trained(make, predict_next, text(), {.eager = true}));
}
TEST(Presets, LlamaSameBits) {
  same_bits_everywhere([] { return nn::Gpt(nn::Init(1), small_gpt(nn::GptOptions::llama())); },
                       predict_next, text(), true);
}
TEST(Presets, EncoderSameBits) {
  same_bits_everywhere([] { return nn::EncoderClassifier(nn::Init(1), small_encoder()); }, classify,
                       {{"x", text()["x"]}, {"y", ids({kRows}, 5)}}, true);
}
TEST(Presets, ResNetSameBits) {
  same_bits_everywhere(
      [] {
        return nn::ResNet(nn::Init(1), {.channels = {8, 16}, .blocks = 2, .classes = 5});
      },
      classify, images(), false);
}
TEST(Presets, ConvNetSameBits) {
  same_bits_everywhere(
      [] {
        return nn::ConvNet(nn::Init(1),
                           {.channels = {8, 16}, .height = 8, .width = 8, .classes = 5});
      },
      classify, images(), true);
}
TEST(Presets, ConvNetByWinogradSameBits) {
  same_bits_everywhere(
      [] {
        return nn::ConvNet(
            nn::Init(1),
            {.channels = {32, 48}, .height = 8, .width = 8, .classes = 5, .winograd = true});
      },
      classify, images(), true);
}
// The option reaches the layers: other bits, the same values.
template <class Model, class Options>
void expect_winograd_close(Options o) {
  const Tensor x = images()["x"];
  const Tensor plain = Model(nn::Init(1), o)(x);
  o.winograd = true;
  const Tensor other = Model(nn::Init(1), o)(x);
  float most = 0;
  for (std::int64_t i = 0; i < plain.size(); ++i)
    most = std::max(most, std::abs(plain.data<float>()[i] - other.data<float>()[i]));
  EXPECT_GT(most, 0);
  EXPECT_LT(most, 1e-4);
}
TEST(Presets, WinogradIsClose) {
  expect_winograd_close<nn::ConvNet>(
      nn::ConvNetOptions{.channels = {32, 48}, .height = 8, .width = 8, .classes = 5});
  expect_winograd_close<nn::ResNet>(
      nn::ResNetOptions{.channels = {32, 48}, .blocks = 2, .classes = 5});
}
TEST(Presets, LstmClassifierSameBits) {
  same_bits_everywhere(
      [] {
        return nn::LstmClassifier(nn::Init(1), {.in = 6, .hidden = 8, .classes = 5, .layers = 2});
      },
      classify, sequences(), false);
}
TEST(Presets, GruClassifierSameBits) {
  same_bits_everywhere(
      [] {
        return nn::GruClassifier(nn::Init(1),
                                 {.in = 6, .hidden = 8, .classes = 5, .bidirectional = true});
      },
      classify, sequences(), false);
}
TEST(Presets, LstmLanguageModelWithAttentionSameBits) {
  same_bits_everywhere(
      [] {
        return nn::LstmLm(
            nn::Init(1),
            {.vocabulary = kVocabulary, .embedding = 8, .hidden = 16, .attention = true});
      },
      predict_next, text(), false);
}

// Parameters of 16 bits on data in f32: products are in f32, and biases go with them.
template <class Make>
void takes_wider_data(const Make& make, const Batch& batch) {
  for (const DType type : {DType::bf16, DType::f16}) {
    auto model = make(nn::Init(1, type));
    const Tensor y = model(batch["x"]);
    EXPECT_EQ(y.dtype(), DType::f32);
    for (const Variable& v : params(model)) EXPECT_EQ(v.spec().dtype, type) << v.name();
    const auto before = test::bytes(variables(model));
    const auto make_it = [&] { return make(nn::Init(1, type)); };
    const auto eager = trained(make_it, classify, batch, {.eager = true});
    EXPECT_FALSE(eager == before);
    EXPECT_TRUE(trained(make_it, classify, batch, {}) == eager) << "compiled";
    // The values are those of the same weights in f32; two biases of a recurrent cell are added up
    // in their own type.
    auto wide = make(nn::Init(1));
    const std::vector<Variable> from = variables(model), to = variables(wide);
    for (std::size_t i = 0; i < from.size(); ++i) Variable(to[i]).assign(cast(from[i], DType::f32));
    const std::vector<float> found = model(batch["x"]).template to_vector<float>();
    const std::vector<float> expected = wide(batch["x"]).template to_vector<float>();
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], expected[i], 2e-3 + 1e-2 * std::abs(expected[i])) << i;
  }
}

TEST(Half, ModelsTakeDataInF32) {
  const Tensor labels = ids({kRows}, 5);
  takes_wider_data(
      [](const nn::Init& init) {
        return nn::Mlp(init, {6, 9, 7, 5}, {.activation = Activation::gelu});
      },
      {{"x", random::normal({kRows, 6}, 0, 1, 1, 1)}, {"y", labels}});
  takes_wider_data(
      [](const nn::Init& init) {
        return nn::ResNet(init, {.channels = {8, 16}, .blocks = 1, .classes = 5});
      },
      images());
  takes_wider_data(
      [](const nn::Init& init) {
        return nn::ConvNet(init, {.channels = {8, 16}, .height = 8, .width = 8, .classes = 5});
      },
      images());
  takes_wider_data(
      [](const nn::Init& init) {
        return nn::LstmClassifier(init, {.in = 6, .hidden = 8, .classes = 5, .layers = 2});
      },
      sequences());
  takes_wider_data(
      [](const nn::Init& init) {
        return nn::GruClassifier(init, {.in = 6, .hidden = 8, .classes = 5, .bidirectional = true});
      },
      sequences());
}

template <class Lm>
Lm small_lm(bool bias) {
  return Lm(
      nn::Init(1),
      {.vocabulary = kVocabulary, .embedding = 8, .hidden = 16, .dropout = 0.1, .bias = bias});
}

TEST(RecurrentLm, GoesOnFromTheStatesOfAWindow) {
  const nn::Evaluation evaluation;
  const auto check = [](const auto& lm) {
    const Batch b = text();
    const Tensor whole = lm(b["x"]);
    const auto part = [](const Tensor& t, std::int64_t begin, std::int64_t end) {
      return slice(t, 1, begin, end);
    };
    const auto first = lm.logits_from({}, part(b["x"], 0, 5));
    const auto second = lm.logits_from(first.last, part(b["x"], 5, kLength));
    EXPECT_EQ(concat({first.value, second.value}, 1).template to_vector<float>(),
              whole.template to_vector<float>());
    const auto loss = lm.loss_from(first.last, part(b["x"], 5, kLength), part(b["y"], 5, kLength));
    EXPECT_NEAR(loss.value.sum.item(),
                sparse_cross_entropy(second.value, part(b["y"], 5, kLength)).sum.item(), 1e-4);
    EXPECT_EQ(loss.last.size(), 2u);
  };
  check(small_lm<nn::LstmLm>(true));
  check(small_lm<nn::LstmLm>(false));
  check(small_lm<nn::GruLm>(false));
}

nn::LstmStates read(const std::vector<Variable>& kept, const nn::LstmLm&) {
  return {{kept[0], kept[1]}, {kept[2], kept[3]}};
}
nn::GruStates read(const std::vector<Variable>& kept, const nn::GruLm&) {
  return {kept[0], kept[1]};
}
void write(std::vector<Variable>& kept, const nn::LstmStates& last) {
  for (std::size_t i = 0; i < last.size(); ++i) {
    kept[2 * i].assign(last[i].h);
    kept[2 * i + 1].assign(last[i].c);
  }
}
void write(std::vector<Variable>& kept, const nn::GruStates& last) {
  for (std::size_t i = 0; i < last.size(); ++i) kept[i].assign(last[i]);
}

// Backpropagation through time, truncated at windows: weights and states in the same bits.
template <class Lm>
void trains_in_windows() {
  enum class Carry { states, nothing };
  const auto after = [](const Options& how, Carry carry, plan::Plan* plan = nullptr) {
    random::seed(3);
    Lm lm = small_lm<Lm>(false);
    optim::Adam adam(params(lm), {.lr = 1e-2});
    std::vector<Variable> kept;
    for (int i = 0; i < 4; ++i)
      kept.emplace_back("state" + std::to_string(i), Tensor::zeros({kRows, 16}), false);
    const auto fn = [&](const Batch& b) {
      auto [loss, last] = lm.loss_from(read(kept, lm), b["x"], b["y"]);
      if (carry == Carry::states) write(kept, nn::stop_gradient(last));
      return adam.minimize(loss);
    };
    const auto window = [](int i) {
      const auto ids_of = [&](std::uint64_t stream) {
        const auto seed = static_cast<std::uint64_t>(5 + i);
        return cast(random::uniform({kRows, 6}, 0, kVocabulary - 0.01, seed, stream), DType::i32);
      };
      return Batch{{"x", ids_of(1)}, {"y", ids_of(2)}};
    };
    if (how.eager) {
      for (int i = 0; i < 4; ++i) {
        Tape tape;
        fn(window(i));
      }
    } else {
      const Spec ids{{kRows, 6}, DType::i32};
      auto step = compile({{"x", ids}, {"y", ids}}, how.compile, fn);
      for (int i = 0; i < 4; ++i) step(window(i));
      if (plan) {
        *plan = step.plan();
        plan->programs.clear();  // which hold the variables
      }
    }
    std::vector<Variable> all = params(lm);
    all.insert(all.end(), kept.begin(), kept.end());
    return test::bytes(all);
  };
  const auto eager = after({.eager = true}, Carry::states);
  EXPECT_FALSE(after({.eager = true}, Carry::nothing) == eager) << "the states count";
  plan::Plan plan;
  Options tight;
  tight.compile.allow = Allow::same_bits;
  tight.compile.split = false;  // the states are those of a whole batch
  EXPECT_TRUE(after(tight, Carry::states, &plan) == eager) << "compiled";
  tight.compile.memory.bytes = plan.minimum;
  EXPECT_TRUE(after(tight, Carry::states) == eager) << "in the smallest budget";
}

TEST(RecurrentLm, LstmTrainsInWindows) { trains_in_windows<nn::LstmLm>(); }
TEST(RecurrentLm, GruTrainsInWindows) { trains_in_windows<nn::GruLm>(); }

TEST(Presets, PaddedPlacesDoNotCount) {
  nn::EncoderClassifier net(nn::Init(1), small_encoder());
  const nn::Evaluation evaluation;
  const Tensor mask = Tensor::from(std::vector<bool>{1, 1, 1, 1, 1, 0, 0, 0}, {1, 8});
  std::vector<std::int32_t> a(8), b(8);
  for (int i = 0; i < 8; ++i) {
    a[i] = static_cast<std::int32_t>(i % kVocabulary);
    b[i] = i < 5 ? a[i] : 16 - a[i];
  }
  const Tensor x = net(Tensor::from(a, {1, 8}), mask), y = net(Tensor::from(b, {1, 8}), mask);
  for (std::int64_t i = 0; i < 5; ++i)
    EXPECT_EQ(x.to_vector<float>()[i], y.to_vector<float>()[i]) << "class " << i;
}

using test::error_of;

TEST(Presets, Errors) {
  nn::GptOptions o = small_gpt(nn::GptOptions::gpt2());
  o.heads = 5;
  EXPECT_EQ(error_of([&] { nn::Gpt(nn::Init(1), o); }),
            "MultiHeadAttention: a width of 32 does not divide into 5 heads");
  nn::Gpt gpt(nn::Init(1), small_gpt(nn::GptOptions::gpt2()));
  EXPECT_EQ(
      error_of([&] {
        gpt(ids({2, 17}, kVocabulary));
      }),
      "Gpt: the text has 17 positions, the model knows 16; cut the text or build the model with "
      "more");
  EXPECT_NE(error_of([&] { gpt(ids({7}, kVocabulary)); }).find("expected (batch, length)"),
            std::string::npos);
  nn::EncoderOptions windowed = small_encoder();
  windowed.window = 4;
  EXPECT_NE(error_of([&] { nn::EncoderClassifier(nn::Init(1), windowed); }).find("looks back only"),
            std::string::npos);
  EXPECT_EQ(error_of([&] { nn::Mlp(nn::Init(1), {4}); }),
            "Mlp: 1 sizes were given, expected at least two: in and out");
}

TEST(Presets, OptionsAreNamedWhereTheyAreGiven) {
  const nn::GptOptions o{.vocabulary = 11, .context = 7, .layers = 1, .width = 8, .heads = 2};
  EXPECT_EQ(nn::Gpt(nn::Init(1), o).tokens.weight.shape(), (Shape{11, 8}));
  const nn::EncoderOptions e{.vocabulary = 11, .classes = 3, .layers = 1, .width = 8, .heads = 2};
  EXPECT_EQ(nn::EncoderClassifier(nn::Init(1), e).head.weight.shape(), (Shape{3, 8}));
}

// Every field of a block comes from the field of the model that has its name.
TEST(Presets, ModelsHandTheirOptionsToTheirBlocks) {
  using O = nn::TransformerOptions;
  const O block{.width = 1,
                .heads = 2,
                .kv_heads = 3,
                .hidden = 4,
                .window = 5,
                .causal = false,
                .bias = false,
                .rotary = true,
                .rotary_base = 6,
                .norm = O::Norm::rms,
                .gate = O::Gate::swiglu,
                .eps = 7,
                .dropout = 8,
                .layers = 9};
  const auto model = [&](auto options) {
    options.layers = 9;
    options.width = 1;
    options.heads = 2;
    options.kv_heads = 3;
    options.hidden = 4;
    options.window = 5;
    options.causal = options.bias = false;
    options.rotary = true;
    options.rotary_base = 6;
    options.norm = O::Norm::rms;
    options.gate = O::Gate::swiglu;
    options.eps = 7;
    options.dropout = 8;
    return static_cast<O>(options);
  };
  EXPECT_EQ(model(nn::GptOptions{}), block);
  EXPECT_EQ(model(nn::EncoderOptions{}), block);
  EXPECT_EQ(static_cast<O>(nn::GptOptions::gpt2()), O{});
}

}  // namespace
}  // namespace ebb
