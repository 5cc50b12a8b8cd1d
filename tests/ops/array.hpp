// Plain arrays of double (or std::complex<double>) in which references are written: slow, obvious.
#pragma once

#include <algorithm>
#include <array>
#include <complex>
#include <cstdint>
#include <vector>

#include "ebb/tensor/spec.hpp"

namespace ebb::table {

using Index = std::array<std::int64_t, Shape::kMaxRank>;  // the first rank() entries count

template <class T>
struct Array {
  using Element = T;
  Shape shape;
  std::vector<T> data;

  Array() : data(1) {}
  explicit Array(const Shape& s) : shape(s), data(static_cast<std::size_t>(s.size())) {}
  Array(const Shape& s, T fill) : shape(s), data(static_cast<std::size_t>(s.size()), fill) {}

  int rank() const { return shape.rank(); }
  std::int64_t dim(int axis) const { return shape[axis < 0 ? axis + rank() : axis]; }
  std::int64_t size() const { return static_cast<std::int64_t>(data.size()); }

  std::int64_t offset(const Index& index) const {
    std::int64_t at = 0;
    for (int d = 0; d < rank(); ++d) at = at * shape[d] + index[static_cast<std::size_t>(d)];
    return at;
  }
  T& at(const Index& index) { return data[static_cast<std::size_t>(offset(index))]; }
  const T& at(const Index& index) const { return data[static_cast<std::size_t>(offset(index))]; }
  template <class... I>
  T& operator()(I... i) {
    return at(Index{static_cast<std::int64_t>(i)...});
  }
  template <class... I>
  const T& operator()(I... i) const {
    return at(Index{static_cast<std::int64_t>(i)...});
  }
  T& operator[](std::int64_t i) { return data[static_cast<std::size_t>(i)]; }
  const T& operator[](std::int64_t i) const { return data[static_cast<std::size_t>(i)]; }
};

template <class T>
using Arrays = std::vector<Array<T>>;

template <class T>
Array<T> scalar(T value) {
  return {Shape(), value};
}

inline double real(double x) { return x; }
inline double real(std::complex<double> x) { return x.real(); }
template <class T>
std::int64_t whole(T x) {  // an index or a label, as an integer
  return static_cast<std::int64_t>(real(x));
}

// Every index of a shape in row-major order.
template <class F>
void for_each_index(const Shape& shape, F&& f) {
  Index index{};
  for (std::int64_t left = shape.size(); left > 0; --left) {
    f(const_cast<const Index&>(index));
    for (int d = shape.rank() - 1; d >= 0; --d) {
      auto& i = index[static_cast<std::size_t>(d)];
      if (++i < shape[d]) break;
      i = 0;
    }
  }
}

// The array of a shape whose element at each index is f(index).
template <class T, class F>
Array<T> build(const Shape& shape, F&& f) {
  Array<T> y(shape);
  for_each_index(shape, [&](const Index& i) { y.at(i) = f(i); });
  return y;
}

// f of every element.
template <class T, class F>
Array<T> map(const Array<T>& x, F&& f) {
  Array<T> y(x.shape);
  for (std::int64_t i = 0; i < x.size(); ++i) y[i] = f(x[i]);
  return y;
}

inline Shape broadcast_shape(const Shape& a, const Shape& b) {
  std::vector<std::int64_t> dims(static_cast<std::size_t>(std::max(a.rank(), b.rank())));
  for (std::size_t back = 1; back <= dims.size(); ++back) {
    const int k = static_cast<int>(back);
    const std::int64_t m = k <= a.rank() ? a[a.rank() - k] : 1,
                       n = k <= b.rank() ? b[b.rank() - k] : 1;
    dims[dims.size() - back] = m == 1 ? n : m;
  }
  return Shape(dims);
}

// The element of x that broadcasting shows at `index` of an array of rank `rank`.
template <class T>
const T& broadcast_at(const Array<T>& x, const Index& index, int rank) {
  Index at{};
  for (int d = 0; d < x.rank(); ++d)
    at[static_cast<std::size_t>(d)] =
        x.shape[d] == 1 ? 0 : index[static_cast<std::size_t>(rank - x.rank() + d)];
  return x.at(at);
}

// f of every pair, broadcast.
template <class T, class F>
Array<T> map(const Array<T>& a, const Array<T>& b, F&& f) {
  const Shape shape = broadcast_shape(a.shape, b.shape);
  return build<T>(shape, [&](const Index& i) {
    return f(broadcast_at(a, i, shape.rank()), broadcast_at(b, i, shape.rank()));
  });
}

}  // namespace ebb::table
