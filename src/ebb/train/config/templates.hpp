// Configs that run as they are, to begin with. Their comments are the docs of the table of keys.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace ebb::train {

struct TemplateFile {
  std::string path;  // beside the config
  std::function<std::string()> content;
};

struct Template {
  std::string name, about;
  struct Choice {
    std::string key, value;  // "train.batch", "128"
  };
  std::vector<Choice> choices;
  std::vector<TemplateFile> files;

  std::string text() const;  // the config, with its comments
};

const std::vector<Template>& templates();
const Template& find_template(std::string_view name);  // an Error names the nearest one

}  // namespace ebb::train
