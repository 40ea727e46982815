/* Built without cairo (METIER_PICTURES=OFF): there are no pictures, and whoever asks for one is told. */
#include "report/render.h"

static enum mt_status refuse(const struct mt_figure *figure, struct mt_output *out)
{
    out->status = mt_fail(figure->page->ctx, MT_ERR_UNSUPPORTED,
                          "this metier was built without cairo and draws no pictures");
    return out->status;
}

enum mt_status mt_render_png(const struct mt_figure *figure, struct mt_output *out)
{
    return refuse(figure, out);
}

enum mt_status mt_render_svg(const struct mt_figure *figure, struct mt_output *out)
{
    return refuse(figure, out);
}
