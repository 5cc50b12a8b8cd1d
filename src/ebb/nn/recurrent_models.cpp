#include "ebb/nn/recurrent_models.hpp"

#include <utility>

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
auto RecurrentLm<Recurrent>::states_from(const States& initial, const Tensor& ids) const
    -> AndLast<Tensor> {
  auto [h, last] = rnn(tokens(ids), {.initial = initial});
  if (attn) h = h + (*attn)(h);
  return {std::move(h), std::move(last)};
}

template <class Recurrent>
auto RecurrentLm<Recurrent>::logits_from(const States& initial, const Tensor& ids) const
    -> AndLast<Tensor> {
  auto [h, last] = states_from(initial, ids);
  return {head(h), std::move(last)};
}

template <class Recurrent>
auto RecurrentLm<Recurrent>::loss_from(const States& initial, const Tensor& ids, const Tensor& next,
                                       SparseCrossEntropyOptions how) const -> AndLast<Loss> {
  auto [h, last] = states_from(initial, ids);
  Loss loss = head.bias ? sparse_cross_entropy(head(h), next, how)
                        : linear_cross_entropy(h, head.weight, next, how);
  return {std::move(loss), std::move(last)};
}

template <class Recurrent>
Loss RecurrentLm<Recurrent>::loss(const Tensor& ids, const Tensor& next,
                                  SparseCrossEntropyOptions how) const {
  return loss_from({}, ids, next, how).value;
}

template struct SequenceClassifier<Lstm>;
template struct SequenceClassifier<Gru>;
template struct RecurrentLm<Lstm>;
template struct RecurrentLm<Gru>;

}  // namespace ebb::nn
