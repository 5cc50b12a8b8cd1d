#include "ebb/nn/recurrent_models.hpp"

#include "ebb/ops/binary.hpp"
#include "ebb/ops/linear_cross_entropy.hpp"

namespace ebb::nn {
namespace {

TransformerOptions attention_of(const RecurrentLmOptions& o) {
  TransformerOptions a;
  a.width = o.hidden;
  a.heads = o.heads;
  a.layers = 1;
  return a;
}

}  // namespace

template <class Recurrent>
SequenceClassifier<Recurrent>::SequenceClassifier(const Init& init, const SequenceOptions& o)
    : rnn(init / "rnn", o.in, o.hidden,
          {.layers = o.layers, .bidirectional = o.bidirectional, .dropout = o.dropout}),
      head(init / "head", o.bidirectional ? 2 * o.hidden : o.hidden, o.classes) {}

template <class Recurrent>
Tensor SequenceClassifier<Recurrent>::operator()(const Tensor& x, const Tensor& lengths) const {
  return head(rnn.last(x, {.lengths = lengths}));
}

template <class Recurrent>
RecurrentLm<Recurrent>::RecurrentLm(const Init& init, const RecurrentLmOptions& o)
    : tokens(init / "tokens", o.vocabulary, o.embedding),
      rnn(init / "rnn", o.embedding, o.hidden, {.layers = o.layers, .dropout = o.dropout}),
      head(init / "head", o.hidden, o.vocabulary, {.bias = o.bias}) {
  if (o.attention) attn.emplace(init / "attn", attention_of(o));
}

template <class Recurrent>
Tensor RecurrentLm<Recurrent>::states(const Tensor& ids) const {
  const Tensor h = rnn(tokens(ids)).output;
  return attn ? h + (*attn)(h) : h;
}

template <class Recurrent>
Loss RecurrentLm<Recurrent>::loss(const Tensor& ids, const Tensor& next,
                                  SparseCrossEntropyOptions how) const {
  if (head.bias) return sparse_cross_entropy((*this)(ids), next, how);
  return linear_cross_entropy(states(ids), head.weight, next, how);
}

template struct SequenceClassifier<Lstm>;
template struct SequenceClassifier<Gru>;
template struct RecurrentLm<Lstm>;
template struct RecurrentLm<Gru>;

}  // namespace ebb::nn
