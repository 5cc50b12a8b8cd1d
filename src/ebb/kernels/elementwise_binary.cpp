#include <cstdlib>
#include <type_traits>

#include "ebb/base/pool.hpp"
#include "ebb/kernels/element.hpp"
#include "ebb/kernels/elementwise.hpp"
#include "ebb/kernels/grain.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ebb/kernels/elementwise_binary.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "ebb/kernels/elementwise-inl.hpp"
#include "ebb/kernels/math_pow-inl.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {
namespace {

// A piece of one output row and where its operands are; a step of 0 is one value for the whole row.
struct Row {
  const void* a;
  std::size_t step_a;
  const void* b;
  std::size_t step_b;
  void* y;
  std::size_t n;
  bool stream;
};

// One line for each function: what it gives for the vectors u (of a) and v (of b). 16-bit floats go
// several vectors in step, for whole vectors of them to store.
#define EBB_BINARY(name, in_step, expression)                           \
  case Binary::name:                                                    \
    return map::apply2<in_step>(a, step_a, b, step_b, y, n, stream,     \
                                [](auto d, auto u, auto v) EBB_LAMBDA { \
                                  (void)d;                              \
                                  return expression;                    \
                                })

template <class T>
void float_row(Binary op, const T* a, std::size_t step_a, const T* b, std::size_t step_b, T* y,
               std::size_t n, bool stream) {
  constexpr std::size_t kStep = sizeof(T) == 2 ? kWide : 1;
  switch (op) {
    EBB_BINARY(add, kStep, Add(u, v));
    EBB_BINARY(sub, kStep, Sub(u, v));
    EBB_BINARY(mul, kStep, Mul(u, v));
    EBB_BINARY(div, kStep, Div(u, v));
    EBB_BINARY(pow, 1, pow(d, u, v));
    EBB_BINARY(minimum, kStep, IfThenElse(Or(Lt(u, v), IsNaN(u)), u, v));
    EBB_BINARY(maximum, kStep, IfThenElse(Or(Gt(u, v), IsNaN(u)), u, v));
  }
}
#undef EBB_BINARY

// Integers, comparisons and logic (which write bytes) are simple enough for the compiler's
// vectoriser.
template <class T, class R, class F>
HWY_INLINE void each_pair(const T* a, std::size_t step_a, const T* b, std::size_t step_b, R* y,
                          std::size_t n, F f) {
  if (step_a && step_b) {
    for (std::size_t i = 0; i < n; ++i) y[i] = f(a[i], b[i]);
  } else if (step_a) {
    const T v = *b;
    for (std::size_t i = 0; i < n; ++i) y[i] = f(a[i], v);
  } else if (step_b) {
    const T u = *a;
    for (std::size_t i = 0; i < n; ++i) y[i] = f(u, b[i]);
  } else {
    const R both = f(*a, *b);
    for (std::size_t i = 0; i < n; ++i) y[i] = both;
  }
}

// Arithmetic wraps: it is done unsigned.
template <class T>
void integer_row(Binary op, const T* a, std::size_t step_a, const T* b, std::size_t step_b, T* y,
                 std::size_t n) {
  using U = std::make_unsigned_t<T>;
#define EBB_INTEGER(name, expression)            \
  case Binary::name:                             \
    return each_pair(a, step_a, b, step_b, y, n, \
                     [](T u, T v) EBB_LAMBDA -> T { return static_cast<T>(expression); })
  switch (op) {
    EBB_INTEGER(add, static_cast<U>(u) + static_cast<U>(v));
    EBB_INTEGER(sub, static_cast<U>(u) - static_cast<U>(v));
    EBB_INTEGER(mul, static_cast<U>(u) * static_cast<U>(v));
    EBB_INTEGER(div, v == 0 ? T(0) : v == T(-1) ? static_cast<T>(U(0) - static_cast<U>(u)) : u / v);
    EBB_INTEGER(minimum, u < v ? u : v);
    EBB_INTEGER(maximum, u > v ? u : v);
    case Binary::pow:
      std::abort();  // refused by the op
  }
#undef EBB_INTEGER
}

// Comparisons of 16-bit rows: both operands widened block by block, then handed to f.
template <class Half, class F>
HWY_INLINE void each_widened(const Row& r, F f) {
  HWY_ALIGN float a[map::kBlock], b[map::kBlock];
  const Half* pa = static_cast<const Half*>(r.a);
  const Half* pb = static_cast<const Half*>(r.b);
  if (r.step_a == 0) widen_block(pa, a, 1);
  if (r.step_b == 0) widen_block(pb, b, 1);
  for (std::size_t i = 0; i < r.n; i += map::kBlock) {
    const std::size_t m = r.n - i < map::kBlock ? r.n - i : map::kBlock;
    if (r.step_a) widen_block(pa + i, a, m);
    if (r.step_b) widen_block(pb + i, b, m);
    f(a, b, i, m);
  }
}

void binary_row(Element element, Binary op, const Row& r) {
  const auto floats = [&]<class T>(T* y) HWY_ATTR {
    float_row<T>(op, static_cast<const T*>(r.a), r.step_a, static_cast<const T*>(r.b), r.step_b, y,
                 r.n, r.stream);
  };
  const auto integers = [&]<class T>(T* y) {
    integer_row<T>(op, static_cast<const T*>(r.a), r.step_a, static_cast<const T*>(r.b), r.step_b,
                   y, r.n);
  };
  switch (element) {
    case Element::f32:
      return floats(static_cast<float*>(r.y));
    case Element::f64:
      return floats(static_cast<double*>(r.y));
    case Element::bf16:
      return floats(static_cast<bf16*>(r.y));
    case Element::f16:
      return floats(static_cast<f16*>(r.y));
    case Element::i32:
      return integers(static_cast<std::int32_t*>(r.y));
    case Element::i64:
      return integers(static_cast<std::int64_t*>(r.y));
    default:
      std::abort();
  }
}

// Of the six comparisons three are loops: the others are these turned round or, for ne, inverted.
template <class T>
void compare_typed(Compare op, const void* pa, std::size_t step_a, const void* pb,
                   std::size_t step_b, bool* y, std::size_t n) {
  const T* a = static_cast<const T*>(pa);
  const T* b = static_cast<const T*>(pb);
  switch (op) {
    case Compare::eq:
    case Compare::ne: {
      const bool invert = op == Compare::ne;
      return each_pair(a, step_a, b, step_b, y, n,
                       [=](T u, T v) EBB_LAMBDA { return (u == v) != invert; });
    }
    case Compare::gt:
      return compare_typed<T>(Compare::lt, b, step_b, a, step_a, y, n);
    case Compare::ge:
      return compare_typed<T>(Compare::le, b, step_b, a, step_a, y, n);
    case Compare::lt:
      return each_pair(a, step_a, b, step_b, y, n, [](T u, T v) EBB_LAMBDA { return u < v; });
    case Compare::le:
      return each_pair(a, step_a, b, step_b, y, n, [](T u, T v) EBB_LAMBDA { return u <= v; });
  }
}

template <class Half>
void compare_half(Compare op, const Row& r) {
  each_widened<Half>(r, [&](const float* a, const float* b, std::size_t i, std::size_t m) HWY_ATTR {
    compare_typed<float>(op, a, r.step_a, b, r.step_b, static_cast<bool*>(r.y) + i, m);
  });
}

void compare_row(Element element, Compare op, const Row& r) {
  bool* y = static_cast<bool*>(r.y);
  const auto typed = [&]<class T>(T) {
    compare_typed<T>(op, r.a, r.step_a, r.b, r.step_b, y, r.n);
  };
  switch (element) {
    case Element::f32:
      return typed(float());
    case Element::f64:
      return typed(double());
    case Element::bf16:
      return compare_half<bf16>(op, r);
    case Element::f16:
      return compare_half<f16>(op, r);
    case Element::i32:
      return typed(std::int32_t());
    case Element::i64:
      return typed(std::int64_t());
    case Element::u8:
    case Element::boolean:
      return typed(std::uint8_t());
  }
}

void logic_row(Logic op, const Row& r) {
  const auto* a = static_cast<const std::uint8_t*>(r.a);
  const auto* b = static_cast<const std::uint8_t*>(r.b);
  bool* y = static_cast<bool*>(r.y);
#define EBB_LOGIC(name, sign)                           \
  case Logic::name:                                     \
    return each_pair(a, r.step_a, b, r.step_b, y, r.n,  \
                     [](std::uint8_t u, std::uint8_t v) \
                         EBB_LAMBDA { return static_cast<bool>((u sign v)&1); })
  switch (op) {
    EBB_LOGIC(and_, &);
    EBB_LOGIC(or_, |);
    EBB_LOGIC(xor_, ^);
  }
#undef EBB_LOGIC
}

// Elements are moved as unsigned integers of their size, so every bit pattern survives.
template <class T>
void where_typed(const std::uint8_t* c, std::size_t step_c, const Row& r) {
  const T* a = static_cast<const T*>(r.a);
  const T* b = static_cast<const T*>(r.b);
  T* y = static_cast<T*>(r.y);
  const auto pick = [&](auto ca, auto cb) EBB_LAMBDA {
    for (std::size_t i = 0; i < r.n; ++i) {
      const T u = a[ca ? i : 0], v = b[cb ? i : 0];
      y[i] = c[i] ? u : v;
    }
  };
  if (step_c == 0) {
    const T* from = *c ? a : b;
    const bool moves = *c ? r.step_a : r.step_b;
    const T first = *from;
    for (std::size_t i = 0; i < r.n; ++i) y[i] = moves ? from[i] : first;
  } else if (r.step_a && r.step_b) {
    pick(std::true_type(), std::true_type());
  } else if (r.step_a) {
    pick(std::true_type(), std::false_type());
  } else if (r.step_b) {
    pick(std::false_type(), std::true_type());
  } else {
    pick(std::false_type(), std::false_type());
  }
}

void where_row(std::size_t element_bytes, const std::uint8_t* c, std::size_t step_c, const Row& r) {
  switch (element_bytes) {
    case 1:
      return where_typed<std::uint8_t>(c, step_c, r);
    case 2:
      return where_typed<std::uint16_t>(c, step_c, r);
    case 4:
      return where_typed<std::uint32_t>(c, step_c, r);
    case 8:
      return where_typed<std::uint64_t>(c, step_c, r);
    default:
      std::abort();
  }
}

// The walks: output elements [begin, end).
const char* element_at(const void* p, std::size_t offset, std::size_t bytes) {
  return static_cast<const char*>(p) + offset * bytes;
}

void binary_range(Element element, std::size_t bytes, Binary op, const Broadcast<2>& walk,
                  const void* a, const void* b, void* y, bool stream, std::size_t begin,
                  std::size_t end) {
  const int last = walk.rank - 1;
  for_each_row(walk, begin, end, [&](std::size_t at, std::size_t n, const std::size_t* offset) {
    binary_row(
        element, op,
        {element_at(a, offset[0], bytes), walk.step[0][last], element_at(b, offset[1], bytes),
         walk.step[1][last], static_cast<char*>(y) + at * bytes, n, stream});
  });
}

void compare_range(Element element, std::size_t bytes, Compare op, const Broadcast<2>& walk,
                   const void* a, const void* b, bool* y, std::size_t begin, std::size_t end) {
  const int last = walk.rank - 1;
  for_each_row(walk, begin, end, [&](std::size_t at, std::size_t n, const std::size_t* offset) {
    compare_row(element, op,
                {element_at(a, offset[0], bytes), walk.step[0][last],
                 element_at(b, offset[1], bytes), walk.step[1][last], y + at, n, false});
  });
}

void logic_range(Logic op, const Broadcast<2>& walk, const bool* a, const bool* b, bool* y,
                 std::size_t begin, std::size_t end) {
  const int last = walk.rank - 1;
  for_each_row(walk, begin, end, [&](std::size_t at, std::size_t n, const std::size_t* offset) {
    logic_row(op, {a + offset[0], walk.step[0][last], b + offset[1], walk.step[1][last], y + at, n,
                   false});
  });
}

void where_range(std::size_t bytes, const Broadcast<3>& walk, const bool* c, const void* a,
                 const void* b, void* y, std::size_t begin, std::size_t end) {
  const int last = walk.rank - 1;
  const auto* condition = reinterpret_cast<const std::uint8_t*>(c);
  for_each_row(walk, begin, end, [&](std::size_t at, std::size_t n, const std::size_t* offset) {
    where_row(bytes, condition + offset[0], walk.step[0][last],
              {element_at(a, offset[1], bytes), walk.step[1][last], element_at(b, offset[2], bytes),
               walk.step[2][last], static_cast<char*>(y) + at * bytes, n, false});
  });
}

}  // namespace
}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::kernels {
HWY_EXPORT(binary_range);
HWY_EXPORT(compare_range);
HWY_EXPORT(logic_range);
HWY_EXPORT(where_range);

template <class T>
void binary(Binary op, const Broadcast<2>& walk, const T* a, const T* b, T* y) {
  const bool stream = walk.size * sizeof(T) >= kStreamBytes;
  pool::parallel_for(walk.size, kGrain, [&](std::size_t begin, std::size_t end) {
    HWY_DYNAMIC_DISPATCH(binary_range)
    (element_of<T>(), sizeof(T), op, walk, a, b, y, stream, begin, end);
  });
}

template <class T>
void compare(Compare op, const Broadcast<2>& walk, const T* a, const T* b, bool* y) {
  pool::parallel_for(walk.size, kGrain, [&](std::size_t begin, std::size_t end) {
    HWY_DYNAMIC_DISPATCH(compare_range)(element_of<T>(), sizeof(T), op, walk, a, b, y, begin, end);
  });
}

void logic(Logic op, const Broadcast<2>& walk, const bool* a, const bool* b, bool* y) {
  pool::parallel_for(walk.size, kGrain, [&](std::size_t begin, std::size_t end) {
    HWY_DYNAMIC_DISPATCH(logic_range)(op, walk, a, b, y, begin, end);
  });
}

void logical_not(const bool* x, bool* y, std::size_t n) {
  Broadcast<2> walk = same_shape<2>(n);
  walk.step[1][0] = 0;
  const bool yes = true;
  logic(Logic::xor_, walk, x, &yes, y);
}

void where(const Broadcast<3>& walk, std::size_t element_bytes, const bool* condition,
           const void* a, const void* b, void* y) {
  pool::parallel_for(walk.size, kGrain, [&](std::size_t begin, std::size_t end) {
    HWY_DYNAMIC_DISPATCH(where_range)(element_bytes, walk, condition, a, b, y, begin, end);
  });
}

#define EBB_BINARY_FOR(T) \
  template void binary<T>(Binary, const Broadcast<2>&, const T*, const T*, T*);
#define EBB_COMPARE_FOR(T) \
  template void compare<T>(Compare, const Broadcast<2>&, const T*, const T*, bool*);
EBB_BINARY_FOR(float)
EBB_BINARY_FOR(double)
EBB_BINARY_FOR(bf16)
EBB_BINARY_FOR(f16)
EBB_BINARY_FOR(std::int32_t)
EBB_BINARY_FOR(std::int64_t)
EBB_COMPARE_FOR(float)
EBB_COMPARE_FOR(double)
EBB_COMPARE_FOR(bf16)
EBB_COMPARE_FOR(f16)
EBB_COMPARE_FOR(std::int32_t)
EBB_COMPARE_FOR(std::int64_t)
EBB_COMPARE_FOR(std::uint8_t)
EBB_COMPARE_FOR(bool)
#undef EBB_BINARY_FOR
#undef EBB_COMPARE_FOR

}  // namespace ebb::kernels
#endif  // HWY_ONCE
