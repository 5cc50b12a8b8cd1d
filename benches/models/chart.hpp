// A picture of curves as SVG text: a logarithmic axis of x, a plain one of y, a legend.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace ebb::zoo {

struct Curve {
  std::string name, colour;
  bool dashed = false;
  std::vector<std::pair<double, double>> points;  // rising x
};

struct Bar {  // not to be crossed: drawn across at y, from x on to the left
  double x, y;
  std::string text, colour;
};

struct Chart {
  std::string title, x_name, y_name;
  std::vector<Curve> curves;
  std::vector<Bar> bars;
  std::string svg() const;
};

}  // namespace ebb::zoo
