// Models of every kind and of lists of layers: shapes, losses, refusals.
#include "ebb/train/build/model.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ebb/exec/compile.hpp"
#include "ebb/nn/convnets.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/train/build/optimizer.hpp"
#include "ebb/train/config/names.hpp"
#include "tests/error_of.hpp"

namespace ebb::train {
namespace {

DataFacts images() {
  DataFacts f;
  f.input = "x";
  f.target = "y";
  f.example = {{28, 28, 1}, DType::f32};
  f.answer = {{}, DType::i32};
  f.classes = 10;
  f.rows = 64;
  return f;
}
DataFacts rows(std::int64_t features = 12) {
  DataFacts f = images();
  f.example = {{features}, DType::f32};
  return f;
}
DataFacts regression() {
  DataFacts f = rows();
  f.task = Task::regression;
  f.answer = {{3}, DType::f32};
  f.classes = 0;
  return f;
}
DataFacts tokens(Task task = Task::sequence_classification) {
  DataFacts f = images();
  f.task = task;
  f.example = {{16}, DType::i32};
  f.vocabulary = 20;
  f.classes = 4;
  if (task == Task::language_model) f.answer = f.example;
  if (task == Task::sequence_classification) f.lengths = "lengths";
  return f;
}

Batch batch_of(const DataFacts& f, std::int64_t n) {
  const auto with_rows = [&](const Spec& s) {
    std::vector<std::int64_t> dims(s.shape.begin(), s.shape.end());
    dims.insert(dims.begin(), n);
    return Shape(dims);
  };
  const auto whole = [&](const Shape& shape, std::int64_t below) {
    std::vector<std::int32_t> v;
    for (std::int64_t i = 0; i < shape.size(); ++i)
      v.push_back(static_cast<std::int32_t>((i * 7 + i / 5) % below));
    return Tensor::from(v, shape);
  };
  const auto filled = [&](const Spec& s, std::int64_t below, std::uint64_t seed) {
    const Shape shape = with_rows(s);
    return is_float(s.dtype) ? random::normal(shape, 0, 1, seed, 0) : whole(shape, below);
  };
  const bool language = f.task == Task::language_model;
  const Tensor x = filled(f.example, f.vocabulary, 1);
  const Tensor y = filled(f.answer, language ? f.vocabulary : f.classes, 2);
  if (f.lengths.empty()) return Batch{{f.input, x}, {f.target, y}};
  std::vector<std::int32_t> lengths;
  for (std::int64_t i = 0; i < n; ++i) lengths.push_back(static_cast<std::int32_t>(1 + i * 5 % 16));
  return Batch{{f.input, x}, {f.target, y}, {f.lengths, Tensor::from(lengths, {n})}};
}
BatchSpec spec_of(const Batch& b) {
  std::vector<Spec> specs;
  for (const Tensor& t : b.values()) specs.push_back(t.spec());
  return BatchSpec(b.shared_names(), specs);
}

struct Given {  // a network that gives what it was given
  Tensor outputs;
  Tensor operator()(const Tensor&) const { return outputs; }
  void each(auto&&) {}
};

struct Case {
  const char* model;
  DataFacts facts;
  Shape outputs;  // of 6 rows
  const char* more = "";
};

std::vector<Case> cases() {
  const DataFacts language = tokens(Task::language_model);
  DataFacts flat = images();
  flat.example = {{784}, DType::f32};
  DataFacts series = images();
  series.example = {{16, 5}, DType::f32};
  DataFacts one = regression();
  one.answer = {{}, DType::f32};
  return {
      {"kind='mlp'", images(), {6, 10}},
      {"kind='mlp'\nhidden=[]", rows(), {6, 10}},
      {"kind='mlp'\nhidden=[8,8]\nactivation='gelu'\ndropout=0.5", regression(), {6, 3}},
      {"kind='mlp'", one, {6, 1}, "[train]\nloss='huber'\nmetrics=['mae']\nmetric='mae'\n"},
      {"kind='cnn'\nchannels=[4,8]", images(), {6, 10}},
      {"kind='cnn'\nchannels=[4]\nconvolutions=1", flat, {6, 10}, "shape=[28,28]\n"},
      {"kind='resnet'\nchannels=[4,8]\nblocks=1", images(), {6, 10}},
      {"kind='lstm'\nwidth=8", language, {6, 16, 20}},
      {"kind='lstm'\nwidth=8\nattention=true\nheads=2\nbias=false", language, {6, 16, 20}},
      {"kind='gru'\nwidth=8\ndepth=2\nbidirectional=true", tokens(), {6, 4}},
      {"kind='lstm'\nwidth=8", series, {6, 10}},
      {"kind='gru'\nwidth=8\ndepth=1", rows(), {6, 10}},
      {"kind='gpt'\nwidth=16\nheads=2\ndepth=1", language, {6, 16, 20}},
      {"kind='gpt'\nwidth=16\nheads=4\nkv_heads=2\ndepth=1\npositions='rotary'\nnorm='rms'\ngate='"
       "swiglu'\n"
       "bias=false\ntied=false\nvocabulary=24\nlook_back=4",
       language,
       {6, 16, 24},
       "[train]\nmetrics=['perplexity','accuracy']\nlabel_smoothing=0.1\n"},
      {"kind='encoder'\nwidth=16\nheads=2\ndepth=1", tokens(), {6, 4}},
      {"layers=[{kind='conv',out=4,stride=2},{kind='batch_norm'},{kind='relu'},{kind='max_pool'},"
       "{kind='conv',out=4,groups=2},{kind='avg_pool',window=3,pool_stride=2,padding=1},{kind='"
       "mean'},"
       "{kind='dense',out=8,activation='silu'},{kind='dropout',rate=0.2},{kind='dense'}]",
       images(),
       {6, 10}},
      {"layers=[{kind='reshape',shape=[3,4]},{kind='conv',out=6},{kind='gelu'},{kind='max_pool'},{"
       "kind='flatten'},"
       "{kind='layer_norm'},{kind='elu'},{kind='dense',bias=false}]",
       rows(),
       {6, 10}},
      {"layers=[{kind='embedding',width=8},{kind='positions'},{kind='transformer',heads=2},{kind='"
       "mean'},"
       "{kind='rms_norm'},{kind='dense'}]",
       tokens(),
       {6, 4}},
      {"layers=[{kind='embedding',width=8},{kind='lstm',width=6,bidirectional=true},"
       "{kind='gru',width=5,take='last'},{kind='tanh'},{kind='dense'}]",
       tokens(),
       {6, 4}},
      {"layers=[{kind='embedding',width=8},{kind='gru',width=6},{kind='dense'}]",
       language,
       {6, 16, 20}},
      {"layers=[{kind='conv',out=2},{kind='flatten'},{kind='dense'}]",
       flat,
       {6, 10},
       "shape=[28,28,1]\n"},
  };
}

Config config_of(const Case& c) {
  Config config =
      parse_config(fmt::format("[model]\n{}\n[data]\nformat='npy'\npath='a.npy'\ntask='{}'\n{}",
                               c.model, name_of(c.facts.task), c.more));
  return config;
}

TEST(TrainModel, every_kind_takes_a_compiled_step_in_a_budget) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.model);
    Config config = config_of(c);
    config.train.lr = 0.01;
    Model model = make_model(config, c.facts);
    const Batch b = batch_of(c.facts, 6);
    EXPECT_EQ(model.forward(b).shape(), c.outputs);
    const auto optimizer =
        make_optimizer(config, params(model), make_rates(config, length_of(config, c.facts.rows)));
    CompileOptions options = compile_options(config);
    options.memory = 40_MiB;
    auto step = compile(spec_of(b), options,
                        [&](const Batch& batch) { return optimizer->minimize(model.loss(batch)); });
    const double first = step(b).item();
    for (int i = 0; i < 30; ++i) step(b);
    const double last = step(b).item();
    EXPECT_TRUE(std::isfinite(first));
    EXPECT_LT(last, first);
    EXPECT_EQ(optimizer->skipped(), 0);
  }
}

TEST(TrainModel, figures_of_parts_are_those_of_the_whole) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.model);
    const Config config = config_of(c);
    const Model model = make_model(config, c.facts);
    const Batch b = batch_of(c.facts, 6);
    const auto figures = [&](std::int64_t micro_batch) {
      auto measure = compile(spec_of(b), {.allow = Allow::same_bits, .micro_batch = micro_batch},
                             [&](const Batch& batch) { return model.measure(batch); });
      std::vector<double> all;
      for (const Loss& l : measure(b)) {
        all.push_back(l.sum.item());
        all.push_back(l.count.item());
      }
      return all;
    };
    const std::vector<double> whole = figures(0);
    EXPECT_EQ(whole.size(), 2 * model.metrics().size());
    EXPECT_EQ(figures(1), whole);
    EXPECT_EQ(figures(4), whole);  // the last one is smaller
    const std::vector<Loss> eager = model.measure(b);
    for (std::size_t i = 0; i < eager.size(); ++i) EXPECT_EQ(eager[i].sum.item(), whole[2 * i]);
  }
}

TEST(TrainModel, figures_are_what_their_names_say) {
  const Tensor logits = Tensor::of({{0, 2, 1}, {3, 0, 0}, {0, 0, 1}, {1, 0, 0}});
  DataFacts facts = rows(3);
  facts.classes = 3;
  const Model classifier = Model::of(Given{logits}, facts);
  const std::vector<Loss> figures =
      classifier.measure({{"x", logits}, {"y", Tensor::of<std::int32_t>({1, 0, 0, -100})}});
  ASSERT_EQ(classifier.metrics()[1].name, "accuracy");
  EXPECT_EQ(figures[1].sum.item(), 2);
  EXPECT_EQ(figures[1].count.item(), 3);  // the last label is ignored

  facts.task = Task::regression;
  facts.answer = {{3}, DType::f32};
  facts.target_scale = 10;
  const Model regression = Model::of(Given{logits}, facts);
  const std::vector<Loss> errors = regression.measure({{"x", logits}, {"y", logits * 0.0}});
  const auto value = [&](std::size_t i) {
    return regression.metrics()[i].value(errors[i].sum.item(), errors[i].count.item());
  };
  EXPECT_EQ(regression.metrics()[1].name, "rmse");
  EXPECT_NEAR(value(1), 10 * std::sqrt(16.0 / 12), 1e-5);
  EXPECT_NEAR(value(2), 10 * 8.0 / 12, 1e-5);
  EXPECT_NEAR((Metric{"perplexity", Metric::Finish::exponential, Mode::min, 1}.value(4, 2)),
              std::exp(2.0), 1e-9);
}

TEST(TrainModel, evaluation_drops_nothing_and_smooths_nothing) {
  Case c{"kind='mlp'\ndropout=0.5", rows(), {6, 10}, "[train]\nlabel_smoothing=0.2\n"};
  const Model model = make_model(config_of(c), c.facts);
  const Batch b = batch_of(c.facts, 6);
  c.model = "kind='mlp'";
  c.more = "";
  const Model plain = make_model(config_of(c), c.facts);
  EXPECT_EQ(model.measure(b)[0].item(), plain.loss(b).item());
  EXPECT_NE(model.loss(b).item(), plain.loss(b).item());
}

TEST(TrainModel, is_a_value) {
  const Case c{"kind='mlp'", rows(), {6, 10}, ""};
  Model model = make_model(config_of(c), c.facts);
  const Batch b = batch_of(c.facts, 6);
  Model copy = model, apart = clone(model);
  EXPECT_EQ(params(copy), params(model));
  EXPECT_NE(params(apart), params(model));
  params(model)[0].assign(params(model)[0].value() * 2.0);
  EXPECT_EQ(copy.loss(b).item(), model.loss(b).item());
  EXPECT_NE(apart.loss(b).item(), model.loss(b).item());
  EXPECT_EQ(params(model)[0].name(), "layers.0.weight");
}

TEST(TrainModel, the_network_can_be_asked_for) {
  const Case c{"kind='gpt'\nwidth=16\nheads=2\ndepth=1", tokens(Task::language_model), {}, ""};
  const Model model = make_model(config_of(c), c.facts);
  ASSERT_TRUE(model.as<nn::Gpt>());
  EXPECT_EQ(model.as<nn::Gpt>()->options.context, 16);
  EXPECT_FALSE(model.as<nn::Mlp>());
}

TEST(TrainModel, the_best_is_told_by_a_figure) {
  TrainConfig config;
  const std::vector<Metric> all = metrics_of(config, rows());
  EXPECT_TRUE(best_of(config, all).improves(1, 2));
  config.metric = "accuracy";
  config.min_change = 0.1;
  const Best best = best_of(config, all);
  EXPECT_EQ(best.metric, 1u);
  EXPECT_TRUE(best.improves(0.9, 0.7));
  EXPECT_FALSE(best.improves(0.75, 0.7));
  EXPECT_FALSE(best.improves(std::nan(""), 0.7));
  EXPECT_TRUE(best.improves(0.1, -std::numeric_limits<double>::infinity()));
}

TEST(TrainModel, seeds_and_precision_are_the_configs) {
  const Case c{"kind='mlp'", rows(), {6, 10}, "[train]\nprecision='bf16'\nseed=9\n"};
  Model model = make_model(config_of(c), c.facts);
  EXPECT_EQ(params(model)[0].spec().dtype, DType::bf16);
  nn::Mlp same(nn::Init(9, DType::bf16), {12, 128, 10});
  EXPECT_EQ(params(same)[0].value().to_vector<bf16>()[5].bits,
            params(model)[0].value().to_vector<bf16>()[5].bits);
}

TEST(TrainModel, every_kind_trains_in_16_bits) {
  for (const char* precision : {"bf16", "f16"})
    for (const Case& c : cases()) {
      if (*c.more) continue;
      SCOPED_TRACE(std::string(precision) + " " + c.model);
      Config config = config_of(c);
      config.train.lr = 0.01;
      config.train.precision = std::string(precision) == "bf16" ? Precision::bf16 : Precision::f16;
      Model model = make_model(config, c.facts);
      const Batch b = batch_of(c.facts, 6);
      const auto optimizer = make_optimizer(config, params(model),
                                            make_rates(config, length_of(config, c.facts.rows)));
      auto step = compile(spec_of(b), {}, [&](const Batch& batch) {
        return optimizer->minimize(model.loss(batch));
      });
      const double first = step(b).item();
      for (int i = 0; i < 30; ++i) step(b);
      EXPECT_LT(step(b).item(), first);
    }
}

struct Wrong {
  const char* model;
  DataFacts facts;
  const char* says;
  const char* more = "";
};

TEST(TrainModel, what_does_not_fit_is_said) {
  DataFacts unknown = rows();
  unknown.classes = 0;
  DataFacts flat = rows(784);
  const Wrong wrong[] = {
      {"kind='mlp'\nin=13", rows(),
       "model.in is 13, and the data has 12 features; leave the key out, or mend the data"},
      {"kind='mlp'\nclasses=3", rows(),
       "model.classes is 3, and the data has 10 classes; leave the key out, or mend the data"},
      {"kind='mlp'", unknown,
       "model.classes is missing: the data does not tell how many classes there are"},
      {"kind='mlp'", tokens(),
       "model.kind = mlp takes numbers, and an example of the data is i32(16); for tokens "
       "take encoder or lstm"},
      {"kind='cnn'", flat,
       "model.kind = cnn takes images (height, width, channels), and an example of the data is "
       "f32(784); data.shape = [28, 28, 1] says how a row is one"},
      {"kind='cnn'\nchannels=[4,4,4,4,4]", images(),
       "model.channels has 5 stages, which halve an image of 28 by 28 too often"},
      {"kind='cnn'", flat, "data.shape is (28, 27, 1), and an example of the data is (784)",
       "shape=[28,27,1]\n"},
      {"kind='encoder'", rows(),
       "model.kind = encoder takes rows of token ids, and an example of the data is f32(12)"},
      {"kind='encoder'\ncontext=8", tokens(),
       "model.context is 8, and the data has 16 tokens in a row; leave the key out, or mend the "
       "data"},
      {"kind='encoder'\nvocabulary=8", tokens(),
       "model.vocabulary is 8, and the data has 20 different tokens; leave the key out, or mend "
       "the data"},
      {"kind='lstm'\nattention=true", tokens(),
       "model.attention is true, which language models have, and the data's task is another"},
      {"kind='lstm'\nbidirectional=true", tokens(Task::language_model),
       "model.bidirectional is true, and a language model must not see what comes next"},
      {"layers=[{kind='dense'},{kind='relu'}]", rows(),
       "model.layers[0] (dense) has no out, which only the last layer may leave to the data"},
      {"layers=[{kind='relu'},{kind='conv',out=3}]", rows(),
       "model.layers[1] (conv) takes (length, channels) or (height, width, channels), and is given "
       "(12)"},
      {"layers=[{kind='conv',out=3,kernel=31,padding=0}]", images(),
       "model.layers[0] (conv) takes at least 31 positions each way, and is given (28, 28, 1)"},
      {"layers=[{kind='conv',out=3,groups=3}]", images(),
       "model.layers[0] (conv) takes channels, in and out, that divide into 3 groups, and is given "
       "(28, 28, 1)"},
      {"layers=[{kind='max_pool',padding=2}]", images(),
       "model.layers[0] (max_pool) has padding 2, expected less than its window 2"},
      {"layers=[{kind='dense',out=3}]", rows(),
       "model.layers: the last one gives (3), and the data asks for (10)"},
      {"layers=[{kind='embedding'}]", rows(),
       "model.layers[0] (embedding) takes rows of token ids, and is given (12)"},
      {"layers=[{kind='dense'}]", tokens(),
       "model.layers[0] (dense) takes an embedding first, as the data is token ids, and is given "
       "(16)"},
      {"layers=[{kind='reshape',shape=[5,5]}]", rows(),
       "model.layers[0] (reshape) takes 25 numbers, to make (5, 5) of them, and is given (12)"},
      {"layers=[{kind='embedding',width=6},{kind='transformer'}]", tokens(),
       "model.layers[1] (transformer) takes a width that 4 heads divide, and is given (16, 6)"},
      {"kind='mlp'", rows(),
       "train.metrics lists rmse, which does not suit classification; expected accuracy",
       "[train]\nmetrics=['rmse']\n"},
      {"kind='mlp'", rows(), "train.metric is rmse, which is not measured: add it to train.metrics",
       "[train]\nmetric='rmse'\n"},
  };
  for (const Wrong& w : wrong) {
    const Config config = config_of({w.model, w.facts, {}, w.more});
    EXPECT_EQ(test::error_of([&] { make_model(config, w.facts); }), w.says) << w.model;
  }
}

}  // namespace
}  // namespace ebb::train
