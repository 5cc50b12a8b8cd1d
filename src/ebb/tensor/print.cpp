#include "ebb/tensor/print.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ostream>
#include <string_view>
#include <vector>

#include "ebb/tensor/with_type.hpp"

namespace ebb {
namespace {

constexpr std::int64_t kAll = 1000;   // elements up to which everything is shown
constexpr std::int64_t kMost = 2000;  // shown of a larger tensor, at most
constexpr int kDecimals = 6;
constexpr std::size_t kColumns = 100;

// What is shown of a shape: all, or `edge` items at both ends of each longer axis.
struct View {
  explicit View(const Shape& shape) : shape(shape) {
    if (shape.size() <= kAll) return;
    for (edge = 3; edge > 1 && shown() > kMost;) --edge;
  }
  bool cut(int axis) const { return edge > 0 && shape[axis] > 2 * edge; }
  std::int64_t shown() const {
    std::int64_t product = 1;
    for (int i = 0; i < shape.rank(); ++i) product *= cut(i) ? 2 * edge : shape[i];
    return product;
  }
  // Calls item(index) for what is shown along an axis, and gap() once where something is left out.
  template <class Item, class Gap>
  void along(int axis, Item item, Gap gap) const {
    for (std::int64_t i = 0; i < shape[axis]; ++i) {
      if (cut(axis) && i == edge) {
        gap();
        i = shape[axis] - edge;
      }
      item(i);
    }
  }

  const Shape& shape;
  std::int64_t edge = 0;  // 0: everything
};

// Element numbers of what is shown, in order.
void collect(const View& view, int axis, std::int64_t base, std::vector<std::int64_t>& to) {
  if (axis == view.shape.rank()) return to.push_back(base);
  view.along(
      axis, [&](std::int64_t i) { collect(view, axis + 1, base * view.shape[axis] + i, to); },
      [] {});
}

// One form for all values shown: so many decimals as the longest needs, or powers of ten where
// plain numbers would be long or lose the small ones.
std::vector<std::string> format_floats(const std::vector<double>& values) {
  double least = HUGE_VAL, most = 0;
  for (const double v : values) {
    if (!std::isfinite(v) || v == 0) continue;
    least = std::min(least, std::abs(v));
    most = std::max(most, std::abs(v));
  }
  const bool powers = most >= 1e8 || least < 1e-4 || (most > 0 && most / least > 1e6);
  int decimals = 0;
  for (const double v : values) {
    if (!std::isfinite(v)) continue;
    std::string text =
        powers ? fmt::format("{:.{}e}", v, kDecimals) : fmt::format("{:.{}f}", v, kDecimals);
    text.resize(std::min(text.find('e'), text.size()));
    const auto last = text.find_last_not_of('0');
    decimals = std::max(decimals, static_cast<int>(last - text.find('.')));
  }
  std::vector<std::string> out;
  for (const double v : values) {
    if (!std::isfinite(v))
      out.push_back(std::isnan(v) ? "nan" : v > 0 ? "inf" : "-inf");
    else if (powers)
      out.push_back(fmt::format("{:.{}e}", v, decimals));
    else {
      // As NumPy: shorter ones are filled up with spaces, so that the points stand in one column.
      std::string text = fmt::format("{:#.{}f}", v, decimals);
      const auto last = text.find_last_not_of('0');
      std::fill(text.begin() + static_cast<std::ptrdiff_t>(last) + 1, text.end(), ' ');
      out.push_back(text);
    }
  }
  return out;
}

// The shortest decimal that is this value in its own type: 0.1f means 0.1, not 0.100000001.
template <class T>
T read_number(const std::string& text) {
  T value{};
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}
double meant(float x) { return read_number<double>(fmt::format("{}", x)); }
double meant(double x) { return x; }
bf16 narrowed(float x, bf16) { return to_bf16(x); }
f16 narrowed(float x, f16) { return to_f16(x); }
template <class Half>
double meant(Half x) {
  for (int digits = 1; digits <= 5; ++digits) {
    const auto close = read_number<float>(fmt::format("{:.{}g}", to_float(x), digits));
    if (narrowed(close, x) == x) return meant(close);
  }
  return to_float(x);
}

template <class T>
std::vector<std::string> format_shown(const Tensor& tensor,
                                      const std::vector<std::int64_t>& shown) {
  const auto data = tensor.data<T>();
  std::vector<std::string> out;
  if constexpr (std::is_integral_v<T>) {
    for (const std::int64_t i : shown)
      out.push_back(fmt::format("{}", data[static_cast<std::size_t>(i)]));
  } else {
    std::vector<double> values;
    for (const std::int64_t i : shown) values.push_back(meant(data[static_cast<std::size_t>(i)]));
    out = format_floats(values);
  }
  return out;
}

std::vector<std::string> format_all(const Tensor& t, const std::vector<std::int64_t>& shown) {
  return with_type(t.dtype(), [&](auto zero) { return format_shown<decltype(zero)>(t, shown); });
}

class Printer {
 public:
  Printer(const View& view, const std::vector<std::string>& texts)
      : view_(view), next_(texts.data()) {
    for (const auto& text : texts) width_ = std::max(width_, text.size());
  }
  std::string print() {
    block(0);
    return std::move(out_);
  }

 private:
  // The brackets of one axis; the items of the last axis stand on a line, wrapped where it is full.
  void block(int axis) {
    const int rank = view_.shape.rank();
    if (axis == rank) {
      out_ += fmt::format("{:>{}}", *next_++, width_);
      return;
    }
    const std::string indent(static_cast<std::size_t>(axis) + 1, ' ');
    bool first = true;
    out_ += '[';
    std::size_t line = indent.size();
    auto separate = [&](std::size_t width) {
      if (axis + 1 < rank) {
        // As many line breaks as brackets open: blocks of matrices stand apart.
        if (!first) out_.append(static_cast<std::size_t>(rank - 1 - axis), '\n').append(indent);
      } else if (!first && line + 1 + width + 1 > kColumns) {
        out_.append("\n").append(indent);
        line = indent.size() + width;
      } else {
        if (!first) out_ += ' ';
        line += width + !first;
      }
      first = false;
    };
    view_.along(
        axis,
        [&](std::int64_t) {
          separate(width_);
          block(axis + 1);
        },
        [&] {
          separate(3);
          out_ += "...";
        });
    out_ += ']';
  }

  const View& view_;
  const std::string* next_;
  std::size_t width_ = 0;
  std::string out_;
};

}  // namespace

std::string to_string(const Tensor& tensor) {
  if (!tensor) return "(no tensor)";
  const std::string spec = to_string(tensor.spec());
  if (tensor.size() == 0) return spec + " []";
  const View view(tensor.shape());
  std::vector<std::int64_t> shown;
  collect(view, 0, 0, shown);
  const std::string values = Printer(view, format_all(tensor, shown)).print();
  return spec + (values.find('\n') == std::string::npos ? " " : "\n") + values;
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  return out << to_string(tensor);
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << to_string(shape); }

}  // namespace ebb
