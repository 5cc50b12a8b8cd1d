// docs/config.md and examples/configs are what the table of keys makes. EBB_REGENERATE=1 writes them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "ebb/base/files/file.hpp"
#include "ebb/train/config/config.hpp"
#include "ebb/train/config/keys.hpp"
#include "ebb/train/config/templates.hpp"

namespace ebb::train {
namespace {

void check_file(const std::string& path, const std::string& content) {
  const std::string full = std::string(EBB_SOURCE_DIR) + "/" + path;
  if (std::getenv("EBB_REGENERATE")) {
    make_directories(std::filesystem::path(full).parent_path().string());
    write_file(full, std::string_view(content));
  }
  ASSERT_TRUE(file_exists(full)) << path << ": EBB_REGENERATE=1 ./test train/ConfigDocs writes it";
  EXPECT_EQ(read_file(full), content)
      << path << ": EBB_REGENERATE=1 ./test train/ConfigDocs writes it";
}

TEST(ConfigDocs, the_page_is_up_to_date) { check_file("docs/config.md", keys_markdown()); }

TEST(ConfigDocs, the_examples_are_the_templates) {
  for (const Template& t : templates()) {
    check_file("examples/configs/" + t.name + ".toml", t.text());
    for (const TemplateFile& f : t.files) check_file("examples/configs/" + f.path, f.content());
    EXPECT_NO_THROW(
        load_config(std::string(EBB_SOURCE_DIR) + "/examples/configs/" + t.name + ".toml"));
  }
}

TEST(ConfigDocs, every_key_is_on_the_terminal) {
  const std::string text = keys_text();
  for (const ConfigKey& k : keys())
    EXPECT_NE(text.find("  " + k.name + " "), std::string::npos) << k.full();
}

}  // namespace
}  // namespace ebb::train
