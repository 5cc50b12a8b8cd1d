// Models around recurrent layers, of either kind.
//
//   nn::LstmClassifier net(nn::Init(1), {.in = 10, .hidden = 256, .classes = 2});
//   nn::LstmLm lm(nn::Init(1), {.vocabulary = 1000, .layers = 2, .attention = true});
//
// Truncated backpropagation through time, a long text in windows:
//
//   nn::LstmStates states;
//   for (const Batch& window : text) {
//     Tape tape;
//     auto [loss, last] = lm.loss_from(states, window["ids"], window["next"]);
//     adam.minimize(loss);
//     states = nn::stop_gradient(last);
//   }
//
// A compiled step keeps them in variables, which it reads and assigns; it is compiled with
// {.split = false}, since they are those of a whole batch.
#pragma once

#include <cstdint>
#include <optional>

#include "ebb/nn/recurrent.hpp"
#include "ebb/nn/transformer.hpp"

namespace ebb::nn {

struct SequenceOptions {
  std::int64_t in = 1, hidden = 256, classes = 2;
  int layers = 1;
  bool bidirectional = false;
  double dropout = 0;  // between layers
};

template <class Recurrent>
struct SequenceClassifier {  // (batch, time, in)[, lengths (batch)] → logits (batch, classes)
  Recurrent rnn;
  Dense head;
  SequenceClassifier(const Init& init, const SequenceOptions& options);
  Tensor operator()(const Tensor& x, const Tensor& lengths = {}) const;  // of the last state
  void each(auto&& f) {
    f("rnn", rnn);
    f("head", head);
  }
};
using LstmClassifier = SequenceClassifier<Lstm>;
using GruClassifier = SequenceClassifier<Gru>;

struct RecurrentLmOptions {
  std::int64_t vocabulary = 1000, embedding = 512, hidden = 512;
  int layers = 2;
  double dropout = 0;      // between layers
  bool attention = false;  // each state also looks at those before it
  std::int64_t heads = 4;  // of that
  bool bias = true;        // of the head; without one, logits are never held
};

template <class Recurrent>
struct RecurrentLm {  // ids (batch, time) → logits (batch, time, vocabulary)
  Embedding tokens;
  Recurrent rnn;
  std::optional<MultiHeadAttention> attn;
  Dense head;
  RecurrentLm(const Init& init, const RecurrentLmOptions& options);
  Tensor states(const Tensor& ids) const { return states_from({}, ids).value; }  // (…, hidden)
  Tensor operator()(const Tensor& ids) const { return head(states(ids)); }
  Loss loss(const Tensor& ids, const Tensor& next, SparseCrossEntropyOptions how = {}) const;

  // The same for a text that goes on from the states of an earlier one (empty: zeros), and the
  // states at its end. Attention sees the text that is given.
  using States = typename Recurrent::States;
  template <class T>
  struct AndLast {
    T value;
    States last;
  };
  AndLast<Tensor> states_from(const States& initial, const Tensor& ids) const;
  AndLast<Tensor> logits_from(const States& initial, const Tensor& ids) const;
  AndLast<Loss> loss_from(const States& initial, const Tensor& ids, const Tensor& next,
                          SparseCrossEntropyOptions how = {}) const;

  void each(auto&& f) {
    f("tokens", tokens);
    f("rnn", rnn);
    if (attn) f("attn", *attn);
    f("head", head);
  }
};
using LstmLm = RecurrentLm<Lstm>;
using GruLm = RecurrentLm<Gru>;

}  // namespace ebb::nn
