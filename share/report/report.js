/*
 * Draws the figures of a report. Every <figure> holds its numbers as JSON: columns of labels (levels, codes) and of
 * numbers (values, null for unknown). Chart.js draws curves, bars, dots, points and radars; heat maps are drawn here.
 */
'use strict';
(function () {
    // Okabe and Ito's colours, which colour-blind readers can tell apart, yellow and black fitted to each theme; then
    // as many others, for experts. draw.c has the same.
    const palettes = {
        light: ['#0072b2', '#d55e00', '#009e73', '#b0578d', '#b37a00', '#3a94c8', '#4d4d4d', '#8f8600',
            '#d1103f', '#00a3a3', '#6a3d9a', '#7fb800', '#14286b', '#7a3b10', '#f06fb0', '#1b5e20'],
        dark: ['#56b4e9', '#f0843c', '#2fc79b', '#dd94bd', '#e6a93a', '#8fc7ef', '#c4c8cd', '#e8df63',
            '#ff5c7a', '#4be0e0', '#b393f0', '#b6e04a', '#7c97e8', '#c58a5c', '#ffb0da', '#7cc47c'],
    };
    const dashes = [[], [7, 4], [2, 3], [9, 3, 2, 3]];
    const marks = ['circle', 'triangle', 'rect', 'rectRot', 'star', 'crossRot', 'cross', 'rectRounded'];
    // Cividis: dark to light, the same to the colour-blind.
    const sequence = [[0, 32, 77], [31, 58, 109], [76, 85, 109], [113, 113, 115], [149, 142, 120], [191, 173, 107],
        [226, 203, 90], [255, 234, 70]];
    const below = [0, 114, 178], above = [213, 94, 0];

    const root = document.documentElement;
    const media = window.matchMedia('(prefers-color-scheme: dark)');
    let printing = false; // paper is white, whatever the screen is
    const isDark = () => !printing && (root.dataset.theme ? root.dataset.theme === 'dark' : media.matches);
    const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
    const colour = (i) => { const p = palettes[isDark() ? 'dark' : 'light']; return p[i % p.length]; };
    // Series of the same colour, or of one like it, have different marks.
    const mark = (i) => marks[(i + Math.floor(i / 8)) % marks.length];
    const faded = (hex, alpha) => hex + Math.round(alpha * 255).toString(16).padStart(2, '0');

    /* A number for people: four digits that count (output.c has the same rule). */
    function show(v) {
        if (v === null || v === undefined || Number.isNaN(v)) return '–';
        const size = Math.abs(v);
        if (size < 1e7 && Number.isInteger(v)) return String(v);
        if (size < 1e-3 || size >= 1e7) return v.toExponential(3).replace('e+', 'e');
        return v.toFixed(Math.max(0, 3 - Math.floor(Math.log10(size))));
    }

    // Powers of a thousand, the largest first; the unit of y says which.
    const scales = {
        s: [[1, ' s'], [1e-3, ' ms'], [1e-6, ' µs']],
        B: [[2 ** 30, ' GiB'], [2 ** 20, ' MiB'], [2 ** 10, ' KiB'], [1, ' B']],
        '': [[1e9, 'G'], [1e6, 'M'], [1e4, 'k', 1e3]],
    };

    /* Ticks of an axis, all in the same unit: 20k, 40k, 60k; 50 ms, 100 ms (draw_axes.c has the same rule). */
    function tickText(unit) {
        return function (value, index, ticks) {
            const most = ticks.reduce((a, t) => Math.max(a, Math.abs(t.value)), 0);
            const known = scales[unit] || scales[''];
            const scale = known.find(([from]) => most >= from) || (unit === 's' ? [1e-6, ' µs'] : [1, '']);
            const divisor = scale[2] || scale[0];
            const step = ticks.length > 1 ? Math.abs(ticks[1].value - ticks[0].value) / divisor : 1;
            if (value === 0 && scale[1][0] !== ' ') return '0';
            if (step > 0 && (step < 1e-4 || step >= 1e6))
                return Number(value.toPrecision(3)).toExponential().replace('e+', 'e').replace(/^-/, '−');
            const decimals = step > 0 && step < 1 ? Math.min(6, Math.ceil(-Math.log10(step) - 1e-9)) : 0;
            const digits = this.type === 'logarithmic' ? String(Number((value / divisor).toPrecision(4)))
                : (value / divisor).toFixed(decimals);
            return digits.replace('-', '−') + scale[1];
        };
    }

    const cell = (column, row) => column.codes ? column.levels[column.codes[row]] : column.values[row];

    // ------------------------------------------------------------------ downloads

    function csvField(value) {
        if (value === null) return '';
        if (typeof value === 'number') return String(value);
        const formula = /^[=+@\t\r]/.test(value) || /^-[^0-9]/.test(value);
        if (!formula && !/[,"\r\n]/.test(value)) return value;
        return '"' + (formula ? "'" : '') + value.replace(/"/g, '""') + '"';
    }

    function toCsv(data) {
        const lines = [data.columns.map((c) => csvField(c.name)).join(',')];
        for (let r = 0; r < data.rows; r++) lines.push(data.columns.map((c) => csvField(cell(c, r))).join(','));
        return lines.join('\r\n') + '\r\n';
    }

    function toJson(data) {
        const rows = [];
        for (let r = 0; r < data.rows; r++) rows.push(data.columns.map((c) => cell(c, r)));
        const { id, title, meaning, formula } = data;
        return JSON.stringify({ id, title, meaning, formula, columns: data.columns.map((c) => c.name), rows }, null, 1);
    }

    function download(name, type, text) {
        const link = document.createElement('a');
        link.href = URL.createObjectURL(new Blob([text], { type }));
        link.download = name;
        link.click();
        setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    }

    // ------------------------------------------------------------------ Chart.js

    /* Rows by series: name, the number of its colour on the page, and the row numbers. */
    function bySeries(data) {
        const all = data.columns[0].levels.map((name, i) => ({ name, hue: data.colours[i], rows: [] }));
        data.columns[0].codes.forEach((code, row) => all[code].rows.push(row));
        return all;
    }

    /* unit: of numbers; null: the axis has labels. */
    function axis(data, title, unit, extra) {
        const ticks = { color: css('--soft'), maxRotation: 60, autoSkipPadding: 12, maxTicksLimit: data.small ? 6 : 9 };
        if (unit !== null) ticks.callback = tickText(unit);
        if (unit === null) Object.assign(ticks, { maxTicksLimit: 99, autoSkip: data.columns[1].levels.length > 24 });
        return Object.assign({
            title: { display: title !== '' && !data.small, text: title, color: css('--soft') },
            ticks, grid: { color: css('--line'), drawBorder: false },
        }, extra);
    }

    /* Steps fill the axis from the first to the last; its ticks are multiples of 1, 2 or 5 times a power of ten. */
    function stepAxis(data) {
        return axis(data, data.x, '', {
            type: 'linear', bounds: 'data',
            afterBuildTicks: (scale) => {
                const apart = (scale.max - scale.min) / (data.small ? 4 : 7);
                const power = 10 ** Math.floor(Math.log10(apart));
                const step = [1, 2, 5, 10].map((digit) => digit * power).find((size) => size >= apart * 0.999);
                if (!(step > 0)) return;
                scale.ticks = [];
                for (let i = Math.ceil(scale.min / step); i * step <= scale.max; i++) scale.ticks.push({ value: i * step });
            },
        });
    }

    function baseOptions(data) {
        return {
            animation: false, responsive: true, maintainAspectRatio: false, normalized: true,
            interaction: { mode: 'nearest', axis: 'x', intersect: false },
            plugins: {
                legend: {
                    display: data.kindred > 1 && !data.small, position: 'bottom',
                    labels: {
                        color: css('--ink'), usePointStyle: true, boxWidth: 10, boxHeight: 7,
                        filter: (item, all) => !all.datasets[item.datasetIndex].hidden_in_legend,
                    },
                },
                tooltip: { filter: (item) => !item.dataset.hidden_in_legend },
            },
        };
    }

    function linesConfig(data) {
        const [, xs, ys, lows, highs] = data.columns;
        const series = bySeries(data);
        const datasets = [];
        series.forEach((one) => {
            const i = one.hue;
            const at = (column) => one.rows.map((r) => ({ x: xs.values[r], y: column.values[r] }));
            const line = {
                borderColor: colour(i), backgroundColor: colour(i), borderWidth: 1.8, spanGaps: false,
                borderDash: dashes[Math.floor(i / 8) % dashes.length],
                pointRadius: one.rows.length > 40 ? 0 : 2.5, pointHoverRadius: 4, parsing: false,
            };
            datasets.push(Object.assign({ label: one.name, data: at(ys), order: 0 }, line));
            if (!data.band) return;
            const edge = Object.assign({}, line, {
                borderWidth: 0, pointRadius: 0, pointHoverRadius: 0, hidden_in_legend: true, order: 1,
                backgroundColor: faded(colour(i), 0.18),
            });
            datasets.push(Object.assign({ label: one.name, data: at(lows), fill: false }, edge));
            datasets.push(Object.assign({ label: one.name, data: at(highs), fill: '-1' }, edge));
        });
        const options = baseOptions(data);
        const positive = ys.values.every((v) => v === null || v > 0);
        options.scales = {
            x: stepAxis(data),
            y: axis(data, data.y, data.unit, { type: data.log && positive ? 'logarithmic' : 'linear' }),
        };
        options.plugins.tooltip.callbacks = {
            title: (items) => items.length ? data.x + ' ' + show(items[0].parsed.x) : '',
            label: (item) => ' ' + item.dataset.label + ': ' + show(item.parsed.y),
        };
        return { type: 'line', data: { datasets }, options };
    }

    /* Whiskers, from columns low and high; across where labels go down. */
    function drawWhiskers(chart) {
        const pen = chart.ctx;
        const across = chart.options.indexAxis === 'y';
        const scale = chart.scales[across ? 'x' : 'y'];
        pen.save();
        pen.strokeStyle = css('--ink');
        pen.lineWidth = 1.3;
        chart.data.datasets.forEach((set, i) => {
            const meta = chart.getDatasetMeta(i);
            if (!set.ranges || meta.hidden) return;
            meta.data.forEach((mark, k) => {
                const range = set.ranges[k];
                if (set.data[k] === null || !range || range[0] === null || range[1] === null) return;
                const at = (value, aside) => across ? [scale.getPixelForValue(value), mark.y + aside]
                    : [mark.x + aside, scale.getPixelForValue(value)];
                pen.beginPath();
                pen.moveTo(...at(range[0], 0)); pen.lineTo(...at(range[1], 0));
                range.forEach((end) => { pen.moveTo(...at(end, -4)); pen.lineTo(...at(end, 4)); });
                pen.stroke();
            });
        });
        pen.restore();
    }

    function labelledSets(data) {
        const [, labels, ys, lows, highs] = data.columns;
        return bySeries(data).map((one) => {
            const values = labels.levels.map(() => null);
            const ranges = labels.levels.map(() => null);
            one.rows.forEach((r) => {
                values[labels.codes[r]] = ys.values[r];
                if (data.band) ranges[labels.codes[r]] = [lows.values[r], highs.values[r]];
            });
            return { label: one.name, hue: one.hue, data: values, ranges: data.band ? ranges : null };
        });
    }

    /* "aux: 41.2 [40.1, 42.3]" */
    function rangedLabel(item) {
        const range = item.dataset.ranges && item.dataset.ranges[item.dataIndex];
        const extent = range && range[0] !== null ? ' [' + show(range[0]) + ', ' + show(range[1]) + ']' : '';
        return ' ' + item.dataset.label + ': ' + show(item.raw) + extent;
    }

    /* What an axis with a line at 0 has to hold. Differences that stay below the reach are shown on the whole of it, so that
       next to nothing looks like it (axis.c has the same rule). */
    function reachOf(data) {
        const numbers = data.columns.slice(2, data.band ? 5 : 3).flatMap((c) => c.values).filter((v) => v !== null);
        const least = numbers.reduce((a, v) => Math.min(a, v), 0), most = numbers.reduce((a, v) => Math.max(a, v), 0);
        const small = -data.reach < least && most < data.reach;
        return { beginAtZero: true, suggestedMin: small ? -data.reach : least, suggestedMax: small ? data.reach : most };
    }

    function barsConfig(data) {
        const sets = labelledSets(data);
        sets.forEach((set) => Object.assign(set, {
            backgroundColor: faded(colour(set.hue), 0.8), borderColor: colour(set.hue), borderWidth: 1, borderRadius: 2,
            minBarLength: 2, // a bar of 0 is one, too
        }));
        // A label with one series needs no room for others.
        const alone = data.columns[1].levels.every((_, k) => sets.filter((set) => set.data[k] !== null).length < 2);
        if (alone) sets.forEach((set) => { set.grouped = false; });
        const options = baseOptions(data);
        options.interaction = { mode: 'index', intersect: false };
        options.scales = {
            x: axis(data, data.x, null, { type: 'category' }),
            y: axis(data, data.y, data.unit, reachOf(data)),
        };
        options.plugins.tooltip.callbacks = {
            title: (items) => items.length ? data.x + ' ' + items[0].label : '',
            label: rangedLabel,
        };
        const plugins = [{ id: 'whiskers', afterDatasetsDraw: drawWhiskers }];
        return { type: 'bar', data: { labels: data.columns[1].levels, datasets: sets }, options, plugins };
    }

    /* Labels down, in the order of the rows, and a line at zero. */
    function dotsConfig(all) {
        const [series, names, ...numbers] = all.columns;
        const used = [...new Set(names.codes)];
        const labels = { levels: used.map((code) => names.levels[code]), codes: names.codes.map((code) => used.indexOf(code)) };
        const data = Object.assign({}, all, { columns: [series, labels, ...numbers] });
        const sets = labelledSets(data);
        sets.forEach((set) => Object.assign(set, {
            showLine: false, backgroundColor: colour(set.hue), borderColor: colour(set.hue), pointRadius: 4, pointHoverRadius: 6,
        }));
        const options = baseOptions(data);
        const grid = {
            color: (at) => css(at.tick && at.tick.value === 0 ? '--ink' : '--line'), drawBorder: false,
            lineWidth: (at) => at.tick && at.tick.value === 0 ? 1.5 : 1,
        };
        options.indexAxis = 'y';
        options.interaction = { mode: 'nearest', axis: 'y', intersect: false };
        options.scales = {
            x: axis(data, data.y, data.unit, Object.assign(reachOf(data), { grid })),
            y: axis(data, data.x, null, { type: 'category', offset: true }),
        };
        Object.assign(options.scales.y.ticks, { autoSkip: false, color: css('--ink') });
        options.plugins.tooltip.callbacks = { title: (items) => items.length ? items[0].label : '', label: rangedLabel };
        const plugins = [{ id: 'whiskers', beforeDatasetsDraw: drawWhiskers }];
        return { type: 'line', data: { labels: labels.levels, datasets: sets }, options, plugins };
    }

    function scatterConfig(data) {
        const [, xs, ys] = data.columns;
        const series = bySeries(data);
        const datasets = series.map((one) => ({
            label: one.name, data: one.rows.map((r) => ({ x: xs.values[r], y: ys.values[r] })), parsing: false,
            backgroundColor: faded(colour(one.hue), 0.6), borderColor: colour(one.hue), pointStyle: mark(one.hue),
            pointRadius: one.rows.length > 400 ? 2.2 : 3.2, borderWidth: 1,
        }));
        const options = baseOptions(data);
        options.interaction = { mode: 'nearest', intersect: true };
        options.scales = { x: axis(data, data.x, '', { type: 'linear' }), y: axis(data, data.y, data.unit, {}) };
        options.plugins.tooltip.callbacks = {
            label: (item) => ' ' + item.dataset.label + ' (' + show(item.parsed.x) + ', ' + show(item.parsed.y) + ')',
        };
        return { type: 'scatter', data: { datasets }, options };
    }

    function radarConfig(data) {
        const sets = labelledSets(data);
        sets.forEach((set) => Object.assign(set, {
            backgroundColor: faded(colour(set.hue), sets.length > 3 ? 0 : 0.12), borderColor: colour(set.hue),
            pointBackgroundColor: colour(set.hue), borderWidth: 2, pointStyle: mark(set.hue),
        }));
        const options = baseOptions(data);
        options.interaction = { mode: 'nearest', intersect: false };
        options.scales = {
            r: {
                beginAtZero: true, grid: { color: css('--line') }, angleLines: { color: css('--line') },
                pointLabels: { color: css('--ink') }, ticks: { color: css('--soft'), backdropColor: 'transparent' },
            },
        };
        options.plugins.tooltip.callbacks = { label: (item) => ' ' + item.dataset.label + ': ' + show(item.raw) };
        return { type: 'radar', data: { labels: data.columns[1].levels, datasets: sets }, options };
    }

    const configs = { lines: linesConfig, bars: barsConfig, dots: dotsConfig, scatter: scatterConfig, radar: radarConfig };

    // ------------------------------------------------------------------ heat maps

    const mix = (a, b, t) => a.map((v, i) => Math.round(v + (b[i] - v) * t));
    const rgb = (c) => 'rgb(' + c.join(',') + ')';

    function hexToRgb(hex) {
        return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
    }

    /* value -> colour, and the numbers the legend names. */
    function colourScale(centre, [low, high]) {
        if (centre !== null) {
            const middle = hexToRgb(css('--neutral'));
            const pick = (v) => v < centre
                ? mix(middle, below, (centre - v) / (centre - low || 1))
                : mix(middle, above, (v - centre) / (high - centre || 1));
            const at = (t) => t < 0.5 ? low + (centre - low) * 2 * t : centre + (high - centre) * (2 * t - 1);
            return { pick, at, marks: [[0, low], [0.5, centre], [1, high]] };
        }
        const pick = (v) => {
            const t = (high > low ? (v - low) / (high - low) : 0.5) * (sequence.length - 1);
            const i = Math.min(sequence.length - 2, Math.floor(t));
            return mix(sequence[i], sequence[i + 1], t - i);
        };
        return { pick, at: (t) => low + (high - low) * t, marks: [[0, low], [1, high]] };
    }

    const readable = (c) => (0.299 * c[0] + 0.587 * c[1] + 0.114 * c[2]) > 140 ? '#111418' : '#ffffff';

    const widestOf = (pen, labels) => labels.reduce((most, label) => Math.max(most, pen.measureText(label).width), 1);

    /* Labels along an axis, as many as fit. */
    function everyNth(count, room, each) {
        return Math.max(1, Math.ceil(count * each / Math.max(1, room)));
    }

    /* Every so-manyth label; of whole numbers those that a step of 1, 2 or 5 times a power of ten falls on. */
    function isShown(labels, i, step) {
        if (step === 1 || labels.some((label) => !/^[0-9]+$/.test(label))) return i % step === 0;
        const apart = step * (Number(labels[labels.length - 1]) - Number(labels[0])) / Math.max(1, labels.length - 1);
        const power = 10 ** Math.floor(Math.log10(Math.max(1, apart)));
        const round = [1, 2, 5, 10].map((digit) => digit * power).find((size) => size >= apart);
        // The first label at or past a multiple stands for it.
        const before = i > 0 ? Math.floor(Number(labels[i - 1]) / round) : -1;
        return Math.floor(Number(labels[i]) / round) > before && (i > 0 || Number(labels[0]) % round === 0);
    }

    function drawLegend(pen, scale, box) {
        for (let i = 0; i < box.width; i++) {
            pen.fillStyle = rgb(scale.pick(scale.at(i / (box.width - 1))));
            pen.fillRect(box.left + i, box.top, 1.5, 8);
        }
        pen.fillStyle = css('--soft');
        pen.textBaseline = 'top';
        scale.marks.forEach(([t, v]) => {
            pen.textAlign = t === 0 ? 'left' : t === 1 ? 'right' : 'center';
            pen.fillText(show(v), box.left + t * box.width, box.top + 11);
        });
    }

    function drawHeatmap(canvas, data) {
        const [down, across, value] = data.columns;
        const holder = canvas.parentElement;
        const width = holder.clientWidth, height = holder.clientHeight;
        const ratio = window.devicePixelRatio || 1;
        canvas.width = Math.round(width * ratio);
        canvas.height = Math.round(height * ratio);
        canvas.style.width = width + 'px';
        canvas.style.height = height + 'px';
        const pen = canvas.getContext('2d');
        pen.scale(ratio, ratio);
        pen.clearRect(0, 0, width, height);
        pen.font = '12px ' + getComputedStyle(document.body).fontFamily;
        const widest = widestOf(pen, down.levels);
        const left = Math.min(widest, width * 0.3) + 28;
        const box = { left, top: 6, width: width - left - 4, height: height - 6 - 76 };
        const wide = box.width / across.levels.length, tall = box.height / down.levels.length;
        const scale = colourScale(data.centre, data.range);
        const gap = wide > 6 && tall > 6 ? 1 : 0;
        pen.fillStyle = css('--empty');
        pen.fillRect(box.left, box.top, box.width, box.height);
        for (let r = 0; r < data.rows; r++) {
            if (value.values[r] === null) continue;
            const c = scale.pick(value.values[r]);
            const x = box.left + across.codes[r] * wide, y = box.top + down.codes[r] * tall;
            pen.fillStyle = rgb(c);
            pen.fillRect(x, y, wide - gap + (gap ? 0 : 0.5), tall - gap + (gap ? 0 : 0.5));
            const text = show(value.values[r]);
            if (data.kind !== 'grid' || pen.measureText(text).width > wide - 4) continue;
            pen.fillStyle = readable(c);
            pen.textAlign = 'center'; pen.textBaseline = 'middle';
            pen.fillText(text, x + wide / 2, y + tall / 2);
        }
        drawHeatmapAxes(pen, data, box, wide, tall);
        drawLegend(pen, scale, { left: box.left, top: height - 26, width: Math.min(260, box.width) });
        pen.textAlign = 'left'; pen.textBaseline = 'top';
        if (box.width > 420) pen.fillText(data.value, box.left + 276, height - 29);
        return { box, wide, tall };
    }

    function drawHeatmapAxes(pen, data, box, wide, tall) {
        const [down, across] = data.columns;
        pen.fillStyle = css('--soft');
        pen.textBaseline = 'middle'; pen.textAlign = 'right';
        const rowStep = everyNth(down.levels.length, box.height, 14);
        down.levels.forEach((label, i) => {
            if (i % rowStep === 0) pen.fillText(label, box.left - 6, box.top + (i + 0.5) * tall, box.left - 24);
        });
        pen.textBaseline = 'top'; pen.textAlign = 'center';
        const widest = widestOf(pen, across.levels);
        const step = everyNth(across.levels.length, box.width, widest + 10);
        across.levels.forEach((label, i) => {
            if (isShown(across.levels, i, step)) pen.fillText(label, box.left + (i + 0.5) * wide, box.top + box.height + 5);
        });
        pen.fillText(data.x, box.left + box.width / 2, box.top + box.height + 22);
        pen.save();
        pen.translate(4, box.top + box.height / 2);
        pen.rotate(-Math.PI / 2);
        pen.fillText(data.y, 0, 0);
        pen.restore();
    }

    /* The cell under the pointer, in words beside it. */
    function addHover(canvas, data, state) {
        const [down, across, value] = data.columns;
        const cells = new Map();
        for (let r = 0; r < data.rows; r++) cells.set(down.codes[r] + ' ' + across.codes[r], value.values[r]);
        const tip = document.createElement('div');
        tip.className = 'tip';
        tip.hidden = true;
        canvas.parentElement.append(tip);
        canvas.addEventListener('pointerleave', () => { tip.hidden = true; });
        canvas.addEventListener('pointermove', (event) => {
            const { box, wide, tall } = state.drawn;
            const x = event.offsetX, y = event.offsetY;
            const i = Math.floor((y - box.top) / tall), k = Math.floor((x - box.left) / wide);
            const inside = i >= 0 && i < down.levels.length && k >= 0 && k < across.levels.length;
            tip.hidden = !inside;
            if (!inside) return;
            const v = cells.get(i + ' ' + k);
            tip.textContent = data.y + ' ' + down.levels[i] + ', ' + data.x + ' ' + across.levels[k] + ': ' +
                data.value + ' ' + show(v);
            tip.style.top = Math.max(0, y - 34) + 'px';
            tip.style.left = Math.max(0, Math.min(x + 10, canvas.clientWidth - tip.offsetWidth)) + 'px';
        });
    }

    // ------------------------------------------------------------------ small multiples

    /* The figure's numbers, panel by panel; each with all labels, so that panels can be held side by side. */
    function panelsOf(data) {
        const last = data.columns[data.columns.length - 1];
        return last.levels.map((name, i) => {
            const rows = last.codes.map((code, row) => [code, row]).filter(([code]) => code === i).map(([, row]) => row);
            const columns = data.columns.slice(0, -1).map((column) => column.codes
                ? Object.assign({}, column, { codes: rows.map((r) => column.codes[r]) })
                : Object.assign({}, column, { values: rows.map((r) => column.values[r]) }));
            return Object.assign({}, data, { columns, rows: rows.length, small: true });
        });
    }

    /* One legend for all panels. */
    function addLegend(element, data) {
        if (data.kindred < 2) return;
        const legend = document.createElement('p');
        legend.className = 'legend';
        data.columns[0].levels.forEach((name, i) => {
            const key = document.createElement('span');
            key.dataset.hue = data.colours[i];
            key.textContent = name;
            legend.append(key);
        });
        element.querySelector('.panels').after(legend);
    }

    function paintLegends() {
        document.querySelectorAll('.legend span').forEach((key) => key.style.setProperty('--key', colour(+key.dataset.hue)));
    }

    // ------------------------------------------------------------------ tables

    /* Says that a table goes on at a side, as long as it does. */
    function watchTable(box) {
        const tell = () => {
            const more = box.scrollWidth - box.clientWidth - box.scrollLeft;
            box.parentElement.classList.toggle('more', more > 2);
            box.parentElement.classList.toggle('before', box.scrollLeft > 2);
        };
        box.addEventListener('scroll', tell, { passive: true });
        new ResizeObserver(tell).observe(box);
        tell();
    }

    // ------------------------------------------------------------------ all of them

    const figures = [];

    function draw(figure) {
        if (figure.chart) figure.chart.destroy();
        if (configs[figure.data.kind]) {
            figure.chart = new Chart(figure.canvas, configs[figure.data.kind](figure.data));
        } else {
            figure.drawn = drawHeatmap(figure.canvas, figure.data);
        }
    }

    function drawAll() {
        figures.forEach(draw);
        paintLegends();
    }

    function open(element) {
        const data = JSON.parse(element.querySelector('script[type="application/json"]').textContent);
        element.querySelectorAll('button[data-get]').forEach((button) => button.addEventListener('click', () => {
            if (button.dataset.get === 'csv') download(data.id + '.csv', 'text/csv', toCsv(data));
            else download(data.id + '.json', 'application/json', toJson(data));
        }));
        const canvases = [...element.querySelectorAll('canvas')];
        const many = element.classList.contains('many');
        const parts = many ? panelsOf(data) : [data];
        if (many && canvases.length) addLegend(element, data);
        canvases.forEach((canvas, i) => {
            if (configs[data.kind] && typeof Chart === 'undefined') {
                canvas.parentElement.textContent = 'Not drawn: the Chart.js in this page does not run here.';
                return;
            }
            const figure = { data: parts[i], canvas, chart: null, drawn: null };
            figures.push(figure);
            draw(figure);
            if (configs[data.kind]) return;
            addHover(canvas, data, figure);
            new ResizeObserver(() => { figure.drawn = drawHeatmap(canvas, data); }).observe(canvas.parentElement);
        });
    }

    function print(on) {
        printing = on;
        root.classList.toggle('printing', on);
        drawAll();
    }

    /* Marks the section being read in the contents. */
    function watchContents() {
        const links = new Map();
        document.querySelectorAll('nav a').forEach((link) => links.set(link.hash.slice(1), link));
        const seen = new IntersectionObserver((entries) => entries.forEach((entry) => {
            if (!entry.isIntersecting) return;
            links.forEach((link) => link.classList.remove('here'));
            links.get(entry.target.id).classList.add('here');
        }), { rootMargin: '-10% 0px -75% 0px' });
        document.querySelectorAll('main section').forEach((section) => seen.observe(section));
    }

    /*
     * Tables that can be filtered, together: a row is shown where each label is the one chosen, a column where its
     * box is ticked. Without a script they are tables with all of both.
     */
    function addFilters() {
        const tables = [...document.querySelectorAll('figure[data-filtered] table')];
        if (!tables.length) return;
        const isNumber = (cell) => cell.classList.contains('n');
        const bar = document.createElement('form');
        bar.className = 'filters';
        const chosen = new Map(); // label column -> its <select>
        const hidden = new Set(); // columns of numbers
        const headOf = (table) => [...table.tHead.rows[0].cells];

        function apply() {
            tables.forEach((table) => {
                const head = headOf(table);
                const show = head.map((cell) => !isNumber(cell) || !hidden.has(cell.textContent));
                head.forEach((cell, i) => { cell.hidden = !show[i]; });
                [...table.tBodies[0].rows].forEach((row) => {
                    row.hidden = head.some((cell, i) => {
                        const select = isNumber(cell) ? null : chosen.get(cell.textContent);
                        return select && select.selectedIndex > 0 && select.value !== row.cells[i].textContent;
                    });
                    [...row.cells].forEach((cell, i) => { cell.hidden = !show[i]; });
                });
                const rest = head.some((cell, i) => isNumber(cell) && cell.textContent !== 'seeds' && show[i]);
                table.closest('figure').hidden = !rest;
            });
            window.dispatchEvent(new Event('resize'));
        }

        headOf(tables[0]).forEach((cell, i) => {
            if (isNumber(cell)) return;
            const label = document.createElement('label');
            const select = document.createElement('select');
            const values = new Set([...tables[0].tBodies[0].rows].map((row) => row.cells[i].textContent));
            select.add(new Option('all', ''));
            values.forEach((value) => select.add(new Option(value, value)));
            select.addEventListener('change', apply);
            label.append(cell.textContent + ' ', select);
            bar.append(label);
            chosen.set(cell.textContent, select);
        });
        const metrics = document.createElement('details');
        const summary = document.createElement('summary');
        summary.textContent = 'metrics';
        metrics.append(summary);
        const names = new Set(tables.flatMap((table) => headOf(table).filter(isNumber).map((c) => c.textContent)));
        const boxes = [...names].map((name) => {
            const label = document.createElement('label');
            const box = document.createElement('input');
            box.type = 'checkbox';
            box.checked = true;
            box.addEventListener('change', () => {
                if (box.checked) hidden.delete(name); else hidden.add(name);
                apply();
            });
            label.append(box, ' ' + name);
            metrics.append(label);
            return { box, name };
        });
        [['all', true], ['none', false]].forEach(([word, on]) => {
            const button = document.createElement('button');
            button.type = 'button';
            button.textContent = word;
            button.addEventListener('click', () => {
                boxes.forEach(({ box, name }) => {
                    box.checked = on;
                    if (on) hidden.delete(name); else hidden.add(name);
                });
                apply();
            });
            metrics.append(button);
        });
        bar.append(metrics);
        bar.addEventListener('submit', (event) => event.preventDefault());
        document.querySelector('main').prepend(bar);
    }

    document.querySelectorAll('figure[data-figure]').forEach(open);
    addFilters();
    document.querySelectorAll('.scroll').forEach(watchTable);
    paintLegends();
    watchContents();
    document.getElementById('theme').addEventListener('click', () => {
        root.dataset.theme = isDark() ? 'light' : 'dark';
        drawAll();
    });
    media.addEventListener('change', drawAll);
    window.addEventListener('beforeprint', () => print(true));
    window.addEventListener('afterprint', () => print(false));
    root.dataset.drawn = String(figures.length);
})();
