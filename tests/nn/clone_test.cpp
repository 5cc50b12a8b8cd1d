// Models with variables of their own; parts that are not to be trained.
#include <gtest/gtest.h>

#include "ebb/nn/layers.hpp"
#include "ebb/nn/params.hpp"
#include "ebb/nn/transformer.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/optim/optimizer.hpp"
#include "ebb/tape/tape.hpp"

namespace ebb {
namespace {

std::vector<std::vector<float>> values(auto& model) {
  std::vector<std::vector<float>> out;
  for (const Variable& v : variables(model)) out.push_back(v.value().to_vector<float>());
  return out;
}

TEST(Clone, TrainingItLeavesTheOriginalAlone) {
  nn::Gpt model(nn::Init(1), {.vocabulary = 11, .context = 5, .layers = 2, .width = 8, .heads = 2});
  model.norm.each([](auto&&, Variable& v) { v.assign(random::normal(v.shape(), 0, 1, 1, 1)); });
  nn::Gpt copy = clone(model);
  const auto before = values(model);
  EXPECT_EQ(values(copy), before);
  optim::Sgd sgd(params(copy));
  {
    Tape tape;
    const Tensor ids = Tensor::from(std::vector<std::int64_t>{1, 2, 3, 4, 5}, {1, 5});
    sgd.minimize(copy.loss(ids, ids));
  }
  EXPECT_EQ(values(model), before);
  EXPECT_NE(values(copy), before);
  ASSERT_EQ(params(copy).size(), params(model).size()) << "tied weights stay tied";
  for (std::size_t i = 0; i < params(copy).size(); ++i) {
    EXPECT_FALSE(params(copy)[i] == params(model)[i]);
    EXPECT_EQ(params(copy)[i].name(), params(model)[i].name());
  }
}

TEST(Clone, TakesNoBytesBeforeThereAreAny) {
  nn::Dense model(nn::Init(1), 1000, 1000);
  const std::uint64_t live = ledger::total().live;
  nn::Dense copy = clone(model);
  EXPECT_LT(ledger::total().live, live + 1000);
  EXPECT_EQ(values(copy), values(model));
}

TEST(Freeze, AFrozenPartIsNoParameter) {
  nn::Sequential model(nn::Dense(nn::Init(1) / "body", 3, 4),
                       nn::Dense(nn::Init(1) / "head", 4, 2));
  std::get<0>(model.layers).weight.value();
  freeze(std::get<0>(model.layers));
  EXPECT_EQ(params(model).size(), 2u);
  EXPECT_EQ(variables(model).size(), 4u);
  Tape tape;
  EXPECT_FALSE(tape.recorded(std::get<0>(model.layers)(Tensor::ones({2, 3}))));
}

TEST(Holdings, NameTheLineThatMadeTheModel) {
  const int line = __LINE__ + 1;
  nn::Dense model(nn::Init(1) / "held", 300, 300);
  model.weight.value();
  std::string site;
  for (const Holding& h : ledger::holdings(1000))
    if (h.scope == "held") site = h.site;
  EXPECT_NE(site.find("clone_test.cpp:" + std::to_string(line)), std::string::npos) << site;
}

}  // namespace
}  // namespace ebb
