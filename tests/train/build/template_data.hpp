// The data of a template, as the commands that read files would make it.
#pragma once

#include <cmath>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "ebb/data/data.hpp"
#include "ebb/train/build/sequences.hpp"
#include "ebb/train/config/templates.hpp"

namespace ebb::test {

struct TemplateData {
  Dataset train, held_out;
  train::DataFacts facts;
};

inline TemplateData split(const Dataset& all, double fraction, train::DataFacts facts) {
  const auto kept = static_cast<std::int64_t>(static_cast<double>(all.size()) * (1 - fraction));
  facts.rows = kept;
  return {all.rows(0, kept), all.rows(kept, all.size()), std::move(facts)};
}

inline std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> all;
  std::istringstream in(line);
  for (std::string field; std::getline(in, field, ',');) all.push_back(field);
  return all;
}

// Numbers as they are, standardised; categories one-hot. The last column is the target.
inline Dataset table_of(const std::string& csv, double& target_scale) {
  std::istringstream in(csv);
  std::string line;
  std::getline(in, line);
  std::vector<std::vector<std::string>> rows;
  while (std::getline(in, line)) rows.push_back(fields_of(line));
  const auto is_number = [](const std::string& s) {
    return s.find_first_of("0123456789") == 0 || s[0] == '-';
  };
  std::vector<std::vector<float>> columns;
  for (std::size_t c = 0; c < rows[0].size(); ++c) {
    if (is_number(rows[0][c])) {
      std::vector<float> x;
      double sum = 0, squares = 0;
      for (const auto& r : rows) x.push_back(std::stof(r[c]));
      for (const float v : x) sum += v, squares += double(v) * v;
      const double n = static_cast<double>(x.size()), mean = sum / n;
      const double deviation = std::sqrt(squares / n - mean * mean);
      for (float& v : x) v = static_cast<float>((v - mean) / deviation);
      target_scale = deviation;
      columns.push_back(x);
    } else {
      std::map<std::string, std::vector<float>> one_hot;
      for (const auto& r : rows) one_hot[r[c]];
      for (const auto& r : rows)
        for (auto& [name, x] : one_hot) x.push_back(name == r[c]);
      for (auto& [name, x] : one_hot) columns.push_back(x);
    }
  }
  const auto n = static_cast<std::int64_t>(rows.size());
  const auto width = static_cast<std::int64_t>(columns.size()) - 1;
  std::vector<float> x;
  for (std::size_t r = 0; r < rows.size(); ++r)
    for (std::size_t c = 0; c + 1 < columns.size(); ++c) x.push_back(columns[c][r]);
  return Dataset::of(
      {{"x", Tensor::from(x, {n, width})}, {"y", Tensor::from(columns.back(), {n})}});
}

inline TemplateData data_of(const train::Template& t, const train::Config& config) {
  const train::DataConfig& d = config.data;
  const double held_out = d.validation_fraction;
  switch (d.format) {
    case train::DataFormat::digits: {
      const Dataset all = data::digits(d.rows, static_cast<std::uint64_t>(d.generate_seed));
      auto facts = train::facts_of(all, train::Task::classification, "image", "label");
      facts.classes = 10;
      return split(all, held_out, facts);
    }
    case train::DataFormat::sequences: {
      const Dataset all =
          train::sequences(d.rows, d.window, static_cast<std::uint64_t>(d.generate_seed));
      return split(all, held_out, train::sequences_facts(all));
    }
    case train::DataFormat::text: {
      const data::Text text = data::text(t.files.at(0).content(), {.window = d.window});
      auto facts = train::facts_of(text.windows, train::Task::language_model, "input", "target");
      facts.vocabulary = text.vocabulary.size();
      return split(text.windows, held_out, facts);
    }
    default: {
      double scale = 1;
      const Dataset all = table_of(t.files.at(0).content(), scale);
      auto facts = train::facts_of(all, train::Task::regression, "x", "y");
      facts.target_scale = scale;
      return split(all, held_out, facts);
    }
  }
}

}  // namespace ebb::test
