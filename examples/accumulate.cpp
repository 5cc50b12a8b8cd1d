// A batch of 100 examples in parts of 32, the last one ragged: the same bits as the whole batch.
#include <ebb/ebb.hpp>
using namespace ebb;

struct Mlp {
  nn::Dense up, down;
  explicit Mlp(nn::Init init)
      : up(init / "up", 784, 256, {.activation = Activation::relu}), down(init / "down", 256, 10) {}
  Tensor operator()(const Tensor& x) const { return down(up(x)); }
  void each(auto&& f) { f("up", up), f("down", down); }
};

int main() {
  const Batch batch = data::digits(100, 1).all();
  std::vector<Tensor> weights;
  for (const std::int64_t part : {100, 32}) {
    Mlp model(nn::Init(1));
    optim::Adam adam(params(model));
    Accumulator gathered(params(model));
    ledger::reset_peak();
    for (std::int64_t begin = 0; begin < batch.rows(); begin += part) {
      const std::int64_t end = std::min(begin + part, batch.rows());
      Tape tape;
      gathered.add(tape, sparse_cross_entropy(model(slice(batch["image"], 0, begin, end)),
                                              slice(batch["label"], 0, begin, end)));
    }
    std::cout << gathered.parts() << " parts, " << gathered.count() << " examples, peak "
              << to_string(ByteSize{ledger::of(Category::activations).peak}) << " of activations\n";
    adam.step(gathered);
    weights.push_back(model.up.weight.value());
  }
  const bool same = weights[0].to_vector<float>() == weights[1].to_vector<float>();
  std::cout << (same ? "the same bits\n" : "different bits\n");
  return same ? 0 : 1;
}
