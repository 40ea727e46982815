/* Files as published, from the shared data folder; skipped where it is absent. Tests src/arch/config.c. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "arch/arch.h"
#include "arch/model_check.h"
#include "arch/model_count.h"
#include "formats/hf/hf_generation.h"
#include "formats/hf/hf_tokenizer_config.h"
#include "support/cmocka_all.h"

static const char *path_of(const char *name, char *path, size_t bytes)
{
    (void)snprintf(path, bytes, "%s/configs/%s", getenv("METIER_SHARED_DATA"), name);
    return path;
}

static void papers_configs(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const struct mt_arch *model;
        int64_t parameters;
    } cases[] = {
        {"paper_repo_ds.config.json", &mt_arch_deepseek, 16375728128},
        {"paper_repo_ds_v2_lite.config.json", &mt_arch_deepseek_v2, 15706484224},
        {"paper_repo_kimi.config.json", &mt_arch_deepseek_v3, 15960110208},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char path[512];
        struct mt_context ctx;
        struct mt_hf_config config;
        struct mt_model_count count;
        mt_context_init(&ctx, NULL);
        assert_int_equal(mt_hf_config_read(&ctx, path_of(cases[i].name, path, sizeof path), NULL, 0, &config),
                         MT_OK);
        assert_ptr_equal(config.arch, cases[i].model);
        mt_model_count(&config, &count);
        assert_int_equal(count.all, cases[i].parameters);
        mt_hf_config_free(&config);
    }
}

static void mixtral_folder(void **state)
{
    (void)state;
    char path[512];
    struct mt_context ctx;
    struct mt_hf_config config;
    struct mt_checkpoint_index index;
    struct mt_model_check check;
    struct mt_model_count count;
    mt_context_init(&ctx, NULL);
    assert_int_equal(
        mt_hf_config_read(&ctx, path_of("mixtral-8x7b/config.json", path, sizeof path), NULL, 0, &config),
        MT_OK);
    (void)path_of("mixtral-8x7b/model.safetensors.index.json", path, sizeof path);
    assert_int_equal(mt_checkpoint_index_read(&ctx, path, NULL, 0, &index), MT_OK);
    assert_int_equal(index.shard_count, 19);
    assert_int_equal(mt_model_check_index(&ctx, &config, &index, &check), MT_OK);
    assert_int_equal(check.missing.count, 0);
    assert_int_equal(check.unexpected.count, 0);
    mt_model_count(&config, &count);
    assert_int_equal(2 * count.all, index.total_size); // bf16, every byte accounted for
    mt_model_check_free(&check);
    mt_checkpoint_index_free(&index);
    mt_hf_config_free(&config);
}

static void mixtral_texts(void **state)
{
    (void)state;
    char path[512];
    struct mt_context ctx;
    struct mt_hf_generation generation;
    struct mt_hf_tokenizer_config tokenizer;
    mt_context_init(&ctx, NULL);
    (void)path_of("mixtral-8x7b/generation_config.json", path, sizeof path);
    assert_int_equal(mt_hf_generation_read(&ctx, path, NULL, 0, &generation), MT_OK);
    assert_int_equal(generation.eos[0], 2);
    mt_hf_generation_free(&generation);
    (void)path_of("mixtral-8x7b/tokenizer_config.json", path, sizeof path);
    assert_int_equal(mt_hf_tokenizer_config_read(&ctx, path, NULL, 0, &tokenizer), MT_OK);
    assert_string_equal(tokenizer.bos_token, "<s>");
    assert_true(tokenizer.add_bos && tokenizer.model_max_length > 9e29);
    mt_hf_tokenizer_config_free(&tokenizer);
    assert_int_equal(ctx.live_bytes, 0);
}

int main(void)
{
    struct stat information;
    char path[512];
    if (getenv("METIER_SHARED_DATA") == NULL ||
        stat(path_of("mixtral-8x7b/config.json", path, sizeof path), &information) != 0) {
        printf("SKIPPED: no shared data (METIER_SHARED_DATA names its folder)\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(papers_configs),
        cmocka_unit_test(mixtral_folder),
        cmocka_unit_test(mixtral_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
