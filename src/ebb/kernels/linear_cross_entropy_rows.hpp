// What linear_cross_entropy does to one row of a tile of logits.
#pragma once

#include <cstddef>
#include <limits>

namespace ebb::kernels {

// What is known of a row after some of its classes.
template <class T>
struct LinearRow {
  T max = -std::numeric_limits<T>::infinity();
  T sum = 0;    // of e^(logit - max)
  T total = 0;  // of the logits, where asked for
  T at_label = 0;
};

template <class T>
struct LinearRowFunctions {
  // Goes on with n classes, in blocks of kLinearBlock: all but a row's last piece are whole blocks.
  void (*add)(const T* logits, std::size_t n, bool totals, LinearRow<T>& row);
  // The loss of a row of which all classes are in. The target is (1 - smoothing) at the label and
  // smoothing / classes everywhere.
  T (*loss)(const LinearRow<T>& row, std::size_t classes, T smoothing);
  // logits ← softmax * upstream - spread, for n classes of a row of which all are in.
  void (*gradient)(T* logits, std::size_t n, const LinearRow<T>& row, T upstream, T spread);
};

template <class T>
LinearRowFunctions<T> linear_row_functions();  // for this machine

}  // namespace ebb::kernels
